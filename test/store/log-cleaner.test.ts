// One group writes all the time, another one wrote a little long ago and still needs
// it: the log stays small and keeps that.
import assert from 'node:assert/strict';
import { closeSync, openSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import type { LogReader } from '../../src/raft/types.ts';
import { KIND_VOTE } from '../../src/store/log-entry.ts';
import type { TurnBatch } from '../../src/shard/ports.ts';
import { neededRecords, recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, TemporaryStore } from './temporary.ts';
import { type Applied, FRESH, batch, checkpoint, entry, logOf, openLogs, show } from './turns.ts';

const QUIET = 1;
const BUSY = 2;
const TURNS = 600;
const QUIET_ENTRIES = 5;
const QUIET_BATCH = batch(
  QUIET,
  Array.from({ length: QUIET_ENTRIES }, (_, i) => entry(i + 1, 1, `quiet ${i + 1}`)),
  { term: 1, vote: 1, commit: 0 },
);
const busy = (turn: number): TurnBatch => batch(BUSY, [entry(turn, 1, 'x'.repeat(3000))]);

test('what a quiet group needs is copied, so the files stay few however much another group writes', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  let { store } = temporary;
  let logs: Map<number, LogReader> = openLogs(store, FRESH);
  store.append([QUIET_BATCH]);
  const before = show(logOf(logs, QUIET));
  let most = 0;
  for (let turn = 1; turn <= TURNS; turn++) {
    store.append([busy(turn)]);
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

test('what a quiet group has as copies alone is salvaged from a log that is damaged elsewhere', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS, salvages: true });
  const { store } = temporary;
  const before = openLogs(store, FRESH);
  store.append([QUIET_BATCH]);
  const quiet = show(logOf(before, QUIET));
  const applied = 150;
  for (let turn = 1; turn <= applied; turn++) {
    store.append([busy(turn)]);
    store.compact(BUSY, turn);
    checkpoint(store);
  }
  for (const turn of [1, 2]) store.append([busy(applied + turn)]);
  const needed = neededRecords(store.tx, temporary.logFolder);
  const ofQuiet = needed.flatMap(({ items }) =>
    items.filter(({ group, kind }) => group === QUIET && kind !== KIND_VOTE),
  );
  assert(ofQuiet.length >= QUIET_ENTRIES && ofQuiet.every(({ isCopy }) => isCopy), 'the originals are gone');
  const lost = needed.find(({ items }) => items.some(({ group, index }) => group === BUSY && index === applied + 1));
  assert(lost !== undefined);
  await temporary.reopen(() => {
    const file = openSync(lost.path, 'r+');
    writeSync(file, 'y', lost.at + 1000);
    closeSync(file);
  });
  const after = openLogs(
    temporary.store,
    new Map([
      [QUIET, [0, 0]],
      [BUSY, [applied, 1]],
    ]),
  );
  const leftOut = temporary.store.found.salvaged?.leftOut.map(({ group, from, behind }) => [
    group,
    from,
    behind.length,
  ]);
  assert.deepEqual(leftOut, [[BUSY, applied + 1, 1]]);
  assert.equal(show(logOf(after, QUIET)), quiet);
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
