// Sessions between sockets and shards that fail in every way: the fixed seeds, and that much happens in them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SESSION_SEEDS } from './fixed-seeds.ts';
import { SessionRun } from './sessions/run.ts';

test('no fixed seed loses, doubles or reorders an answer, shows a gap, or keeps what it lent', (t) => {
  const totals: Record<string, number> = {};
  for (const seed of SESSION_SEEDS) {
    const run = new SessionRun(seed);
    run.run();
    for (const [what, count] of Object.entries(run.counts)) totals[what] = (totals[what] ?? 0) + count;
  }
  t.diagnostic(JSON.stringify(totals));
  // A run in which nothing happens proves nothing.
  for (const what of [
    ...['answers', 'events', 'unsubscribed', 'NO_LEADER', 'SHARD_BUSY', 'INFLIGHT_FULL', 'SESSION_FULL', 'STOPPING'],
    ...['ended 1001', 'ended 1002', 'ended 1006', 'subscription STREAM_NOT_FOUND', 'subscription WATCHERS_FULL'],
  ])
    assert((totals[what] ?? 0) > 0, what);
});
