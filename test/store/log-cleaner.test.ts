// One group writes all the time, another one wrote a little long ago and still needs
// it: the log stays small and keeps that.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogReader } from '../../src/raft/types.ts';
import { recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, TemporaryStore } from './temporary.ts';
import { type Applied, FRESH, batch, checkpoint, entry, logOf, openLogs, show } from './turns.ts';

const QUIET = 1;
const BUSY = 2;
const TURNS = 600;
const QUIET_ENTRIES = 5;

test('what a quiet group needs is copied, so the files stay few however much another group writes', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  let { store } = temporary;
  const quiet = Array.from({ length: QUIET_ENTRIES }, (_, i) => entry(i + 1, 1, `quiet ${i + 1}`));
  let logs: Map<number, LogReader> = openLogs(store, FRESH);
  store.append([batch(QUIET, quiet, { term: 1, vote: 1, commit: 0 })]);
  const before = show(logOf(logs, QUIET));
  let most = 0;
  for (let turn = 1; turn <= TURNS; turn++) {
    store.append([batch(BUSY, [entry(turn, 1, 'x'.repeat(3000))])]);
    if (turn % 5 === 0) {
      store.compact(BUSY, turn);
      checkpoint(store);
    }
    most = Math.max(most, store.logFileBytes);
    if (turn % 100 !== 0) continue;
    store = await temporary.reopen();
    const applied: Applied = new Map([
      [QUIET, [0, 0]],
      [BUSY, [turn, 1]],
    ]);
    logs = openLogs(store, applied);
    assert.equal(show(logOf(logs, QUIET)), before, `turn ${turn}`);
  }
  assert(most <= 10 * SMALL_SEGMENTS.bytesMax, `${most} bytes of segments`);
  assert(TURNS * 4096 > 3 * most, 'the log was written several times over');
  assert(recordsIn(temporary.logFolder).some(({ items }) => items.some(({ isCopy }) => isCopy)));
});

test('a log of which most is needed is not copied', (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  const { store } = temporary;
  openLogs(store, FRESH);
  for (let turn = 1; turn <= 100; turn++) {
    store.append([batch(QUIET, [entry(turn, 1, 'x'.repeat(3000))])]);
    checkpoint(store);
  }
  const copies = recordsIn(temporary.logFolder).filter(({ items }) => items.some(({ isCopy }) => isCopy));
  assert.deepEqual(copies, []);
});
