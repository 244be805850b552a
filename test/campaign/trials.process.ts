// A process in which trials end: it holds the nodes, and may die of one.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { Verdict } from './ending.ts';
import { Prepared } from './prepared.ts';
import { runTrial } from './run-trial.ts';
import { trialOf } from './trial.ts';

export interface Order {
  readonly seed: number;
  readonly only: readonly string[];
}

/** The change, before the system has seen it; then the end of the trial. */
export type Told = { readonly did: string } | Verdict;

const [folder = '', prepared = ''] = process.argv.slice(2);

let count = 0;

process.on('message', ({ seed, only }: Order) => {
  const own = join(folder, `${seed}-${count++}`);
  mkdirSync(own);
  const note = (did: string): void => void process.send?.({ did });
  void runTrial(trialOf(seed, only), { prepared: new Prepared(prepared), folder: own, note }).then(
    (result) => {
      // The identity of a file may come back, so what a node may still have open stays until this process ends.
      if (result.ending === 'served') rmSync(own, { recursive: true, force: true });
      process.send?.(result);
    },
    (error: unknown) => {
      const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
      process.send?.({ ending: 'BAD', why });
    },
  );
});
process.on('disconnect', () => process.exit(0));
