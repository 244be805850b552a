// A short run of chaos: some kinds of faults, drawn by the seed, under clients, and everything judged. `npm run chaos`
// is the long one, with all kinds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seedFromEnvironment } from '../support/random.ts';
import { type ChaosOptions, KINDS_OF_NETWORK, KINDS_OF_NODES, chaos } from './chaos.ts';
import { circumstances, progressOf, reportOf } from './report.ts';

test('faults of kinds that the seed draws: nothing acknowledged is lost, doubled or moved, and no reader is misled', async () => {
  const options: ChaosOptions = {
    seed: seedFromEnvironment(),
    nodes: 3,
    onFault: (strike, world) => void process.stdout.write(progressOf(strike, world)),
  };
  process.stdout.write(`chaos: SEED=${options.seed}\n`);
  const around = circumstances(options);
  const result = await chaos(options);
  process.stdout.write(reportOf(around, result));
  const { world, strikes } = result;
  assert.deepEqual(world.violations, []);
  assert(world.counts.appends.acknowledged > 100, 'the load must be real');
  assert.equal(strikes.length, KINDS_OF_NODES + KINDS_OF_NETWORK, 'every fault struck');
});
