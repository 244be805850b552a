import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { TESTED_SEEDS } from './fixed-seeds.ts';
import type { Counts } from './seeds.worker.ts';
import { Simulation } from './simulation.ts';

/** CI has as many cores. */
const THREADS = 2;

/** The events of every THREADS-th seed, and how often each happened. */
async function countsOf(part: number): Promise<Counts> {
  const seeds = TESTED_SEEDS.filter((_, index) => index % THREADS === part);
  const worker = new Worker(new URL('./seeds.worker.js', import.meta.url), { workerData: seeds });
  const [counts] = (await once(worker, 'message')) as [Counts];
  return counts;
}

test('no fixed seed loses, doubles or reorders anything, and every cluster comes to rest', async (t) => {
  const parts = await Promise.all(Array.from({ length: THREADS }, (_, part) => countsOf(part)));
  const totals: Record<string, number> = {};
  for (const part of parts)
    for (const [what, count] of Object.entries(part)) totals[what] = (totals[what] ?? 0) + count;
  t.diagnostic(JSON.stringify(totals));
  // A run in which nothing happens proves nothing.
  for (const what of [
    'crash',
    'stop',
    'partition',
    'oneway',
    'full',
    'slow',
    'clock',
    'restored',
    'learner',
    'snapshots',
    'tooFarBehind',
    'outage',
    'staleFlushes',
    'read COLD_UNAVAILABLE',
    'look-up OK',
    'fork FORK_SOURCE_NOT_FOUND',
    'twig compared',
    'restores',
    'importsUndone',
    'importsLate',
    'exportsCompared',
    'repeat OK',
    'close OK',
    'append QUOTA_EXCEEDED',
    'fork OK',
  ]) {
    assert((totals[what] ?? 0) >= 5, `${what} happened ${totals[what] ?? 0} times`);
  }
  assert((totals['repaired'] ?? 0) >= 5, 'next to no state was repaired');
  // Rare.
  assert((totals['unheard'] ?? 0) > 0, 'no leader was made unheard');
  assert((totals['starvedWrites'] ?? 0) >= 10, 'nodes without processor took next to no writes');
  assert((totals['pieceBytes'] ?? 0) >= 100_000, 'next to no large commands were cut');
  assert((totals['fork NAME_HELD'] ?? 0) > 0, 'no name was held');
  for (const what of [
    'append OK',
    'produce OK',
    'append RECORD_PRECONDITION_FAILED',
    'read OK',
    'leaders',
    'readBack',
    'flushes',
    'collected',
    'coldTroubles',
    'append BACKPRESSURE',
    'publish OK',
    'retention OK',
    'purge OK',
    'quota OK',
    'exports',
    'importPieces',
    'knock GROUP_IMPORTING',
    'thinWrites',
    'session answers',
    'session events',
  ]) {
    assert((totals[what] ?? 0) >= 50, `${what} happened ${totals[what] ?? 0} times`);
  }
});

test('a seed repeats itself, with forks, and with a restore', () => {
  for (const [seed, what] of [
    [0x1c, 'fork OK'],
    [0xf, 'restores'],
  ] as const) {
    const traces = [1, 2].map(() => {
      const lines: string[] = [];
      const { ticks, counts } = new Simulation(seed, { log: (line) => lines.push(line) }).run();
      assert((counts[what] ?? 0) > 0, `seed ${seed}: ${what} never happened`);
      return [ticks, ...lines].join('\n');
    });
    assert.equal(traces[0], traces[1]);
  }
});
