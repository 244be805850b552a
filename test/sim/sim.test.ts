import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TESTED_SEEDS } from './fixed-seeds.ts';
import { Simulation } from './simulation.ts';

test('no fixed seed loses, doubles or reorders anything, and every cluster comes to rest', (t) => {
  const totals: Record<string, number> = {};
  for (const seed of TESTED_SEEDS)
    for (const [what, count] of Object.entries(new Simulation(seed).run().counts))
      totals[what] = (totals[what] ?? 0) + count;
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
    'append BACKPRESSURE',
    'exports',
    'knock GROUP_IMPORTING',
    'session answers',
    'session events',
    'quota OK',
    'importPieces',
  ]) {
    assert((totals[what] ?? 0) >= 50, `${what} happened ${totals[what] ?? 0} times`);
  }
  // Half of what happens. No bound of writes behind thin links: seeds that have them take too long (fixed-seeds.ts).
  for (const [what, least] of [
    ['coldTroubles', 24],
    ['purge OK', 17],
    ['publish OK', 13],
    ['retention OK', 13],
  ] as const) {
    assert((totals[what] ?? 0) >= least, `${what} happened ${totals[what] ?? 0} times`);
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
