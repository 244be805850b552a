// One trial: which fault in which place of which system, all drawn from its seed.
import type { Random } from '../support/random.ts';
import { createRandom } from '../support/random.ts';
import { FAULTS, type Fault, IN_PLACE } from './faults.ts';

/**
 * Where the damage is: in the files of a shard that is opened without a node around it, which takes a tenth of the time,
 * or in those that it has open; in those of a single node before it starts, or while it serves; of one of three nodes before it starts, or while it
 * leads; in frames of a group snapshot; in the part of one that a node has; in a backup.
 */
export const SCENES = ['shard', 'open', 'single', 'minority', 'running', 'leader', 'wire', 'staged', 'backup'] as const;
export type Scene = (typeof SCENES)[number];
export const PLACES = ['segments', 'state', 'identity', 'cold'] as const;
export type Place = (typeof PLACES)[number];

export interface Trial {
  readonly seed: number;
  readonly scene: Scene;
  readonly place: Place | 'set' | 'frames';
  readonly fault: Fault;
}

/** Trials of a cluster take ten times as long as others. Open shards come by name alone: older seeds keep their trials. */
const SHARES: Readonly<Record<Scene, number>> = {
  shard: 75,
  open: 0,
  single: 9,
  running: 3,
  backup: 5,
  minority: 4,
  leader: 2,
  wire: 1,
  staged: 1,
};

/** The rarest trials come once in some hundred draws. */
const DRAWS_MAX = 10_000;

/** `only`: words of which each must be the scene, the place or the fault. */
export function trialOf(seed: number, only: readonly string[]): Trial {
  const random = createRandom(seed);
  for (let draws = 0; draws < DRAWS_MAX; draws++) {
    const scene = sceneOf(random, only);
    const trial: Trial = { seed, scene, place: placeOf(scene, random), fault: faultOf(scene, random) };
    const words: readonly string[] = [trial.scene, trial.place, trial.fault];
    if (only.every((word) => words.includes(word))) return trial;
  }
  throw new Error(`--only ${only.join(',')}: no trial is all of that; name one scene, one place and one fault at most`);
}

function sceneOf(random: Random, only: readonly string[]): Scene {
  const named = SCENES.filter((scene) => only.includes(scene));
  if (named.length > 0) return random.pick(named);
  let dice = random.next() * Object.values(SHARES).reduce((sum, share) => sum + share, 0);
  return SCENES.find((scene) => (dice -= SHARES[scene]) < 0) ?? 'single';
}

function placeOf(scene: Scene, random: Random): Trial['place'] {
  switch (scene) {
    case 'shard':
    case 'open':
      return random.pick(['segments', 'state'] as const);
    case 'single':
    case 'running':
      return random.pick(['segments', 'segments', 'state', 'state', 'identity', 'cold'] as const);
    case 'minority':
    case 'leader':
      return random.pick(['segments', 'segments', 'state', 'state', 'identity'] as const);
    case 'staged':
      return 'state';
    case 'wire':
      return 'frames';
    case 'backup':
      return 'set';
  }
}

function faultOf(scene: Scene, random: Random): Fault {
  if (scene === 'wire') return 'flip';
  return random.pick(['open', 'running', 'leader'].includes(scene) ? IN_PLACE : FAULTS);
}

/** The command that runs it again. */
export const commandOf = ({ seed }: Trial, only: readonly string[]): string =>
  `npm run campaign -- --seed ${seed}${only.length > 0 ? ` --only ${only.join(',')}` : ''}`;
