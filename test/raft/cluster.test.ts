import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IS_THOROUGH } from '../support/thorough.ts';
import { RandomCluster } from './support/random-cluster.ts';

/** RAFT_SEEDS=2000 for a longer search, RAFT_SEED=n to replay one. */
const first = Number(process.env['RAFT_SEED'] ?? 1);
const COUNT = IS_THOROUGH ? 400 : 150;
const seeds = process.env['RAFT_SEED'] === undefined ? Number(process.env['RAFT_SEEDS'] ?? COUNT) : 1;
const EVENTS = 12_000;

test(`${seeds} random clusters keep Raft's promises under loss, reordering, crashes, cuts and lost disks`, (t) => {
  const totals: Record<string, number> = {};
  for (let seed = first; seed < first + seeds; seed += 1) {
    const cluster = new RandomCluster(seed);
    let event = 0;
    try {
      for (; event < EVENTS; event += 1) cluster.chaos();
      cluster.settle();
      cluster.checker.logMatching(cluster.nodes);
    } catch (error) {
      throw new Error(`seed ${seed}, event ${event}: RAFT_SEED=${seed} node --test dist/test/raft/cluster.test.js`, {
        cause: error,
      });
    }
    for (const [name, count] of Object.entries({ ...cluster.counts, committed: cluster.checker.committed.length })) {
      totals[name] = (totals[name] ?? 0) + count;
    }
  }
  t.diagnostic(JSON.stringify(totals));
  if (seeds < 100) return;
  // The search is worth nothing when the interesting things do not happen.
  for (const name of [
    'proposed',
    'crashes',
    'wipes',
    'restored',
    'changes',
    'transfers',
    'snapshots',
    'reads',
    'stops',
    'repairs',
    'committed',
  ]) {
    assert.ok((totals[name] ?? 0) > seeds / 10, `${name} happened ${totals[name]} times in ${seeds} seeds`);
  }
});
