// A trial by its scene.
import { backup } from './backup.ts';
import { leader, minority, staged, wire } from './cluster.ts';
import type { Verdict } from './ending.ts';
import type { Prepared } from './prepared.ts';
import { open, shard } from './shard.ts';
import { single } from './single.ts';
import { PLACES, type Trial } from './trial.ts';

export interface Bench {
  readonly prepared: Prepared;
  /** Where the trial works. */
  readonly folder: string;
  /** Told what was done to which file, before the system shows how it takes it. */
  readonly note: (did: string) => void;
}

export async function runTrial(trial: Trial, { prepared, folder, note }: Bench): Promise<Verdict> {
  const place = PLACES.find((one) => one === trial.place) ?? 'state';
  const ofCluster = { trial, prepared, note };
  switch (trial.scene) {
    case 'shard':
      return await shard({ trial, prepared, folder, note }, place);
    case 'open':
      return await open({ trial, prepared, folder, note }, place);
    case 'single':
    case 'running':
      return await single({ trial, prepared, folder, note }, place);
    case 'minority':
      return await minority(ofCluster, place);
    case 'leader':
      return await leader(ofCluster, place);
    case 'wire':
      return await wire(ofCluster);
    case 'staged':
      return await staged(ofCluster);
    case 'backup':
      return await backup(trial, prepared, folder, note);
  }
}
