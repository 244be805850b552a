/** Runs the seeds that it is given; answers with the sum of their counts. */
import { parentPort, workerData } from 'node:worker_threads';
import { Simulation } from './simulation.ts';

export type Counts = Readonly<Record<string, number>>;

const totals: Record<string, number> = {};
for (const seed of workerData as readonly number[]) {
  const { counts } = new Simulation(seed).run();
  for (const [what, count] of Object.entries(counts)) totals[what] = (totals[what] ?? 0) + count;
}
parentPort?.postMessage(totals satisfies Counts);
