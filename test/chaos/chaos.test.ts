// A short run of chaos: each kind of fault once, under clients, and everything judged. `npm run chaos` is the long one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seedFromEnvironment } from '../support/random.ts';
import { type ChaosOptions, chaos } from './chaos.ts';
import { circumstances, progressOf, reportOf } from './report.ts';

test('each kind of fault once: nothing acknowledged is lost, doubled or moved, and no reader is misled', async () => {
  const options: ChaosOptions = {
    seed: seedFromEnvironment(),
    nodes: 3,
    onFault: (strike, world) => void process.stdout.write(progressOf(strike, world)),
  };
  process.stdout.write(`chaos: SEED=${options.seed}\n`);
  const around = circumstances(options);
  const result = await chaos(options);
  process.stdout.write(reportOf(around, result));
  const { world, leftOut, strikes } = result;
  assert.deepEqual(world.violations, []);
  assert(world.counts.appends.acknowledged > 100, 'the load must be real');
  assert(leftOut.length > 0 || strikes.some(({ kind }) => kind === 'disk full'), 'every kind of fault struck');
});
