// The logs of a shard's groups: entries come back as they were written last, whatever
// happened to the segments around them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENTRY_DATA, type Entry } from '../../src/raft/types.ts';
import { GroupLog } from '../../src/store/group-log.ts';
import { DiskFolder } from '../../src/store/log-files.ts';
import { SegmentRecord, Segment } from '../../src/store/segments.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { neededRecords, recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, TemporaryStore } from './temporary.ts';
import {
  type Applied,
  FRESH,
  batch,
  checkpoint,
  entry,
  logOf,
  openLogs,
  show,
  snapshotBatch,
  voteOf,
} from './turns.ts';

test('entries come back after a restart, in order and with their terms', async (t) => {
  const temporary = new TemporaryStore(t);
  const logs = openLogs(temporary.store, FRESH);
  temporary.store.append([batch(1, [entry(1, 1), entry(2, 1)]), batch(2, [entry(1, 3)])]);
  temporary.store.append([batch(1, [entry(3, 2, 'x'.repeat(300_000))])]);
  temporary.store.append([batch(2, [entry(2, 3, '')])]);
  const log = logOf(logs, 1);
  assert.equal(log.lastIndex(), 3);
  assert.equal(log.term(3), 2);
  assert.equal(log.entries(1, 4, 1).length, 1, 'one entry goes whatever its size');
  assert.equal(log.entries(1, 4, 6).length, 2);
  const before = [...logs.values()].map(show);
  const again = openLogs(await temporary.reopen(), FRESH);
  assert.deepEqual([...again.values()].map(show), before);
});

test('an entry at an index that exists replaces everything from there on', async (t) => {
  const temporary = new TemporaryStore(t);
  const logs = openLogs(temporary.store, FRESH);
  const { store } = temporary;
  store.append([batch(1, [entry(1, 1), entry(2, 1), entry(3, 1)])]);
  store.append([batch(1, [entry(4, 1)]), batch(2, [entry(1, 1)])]);
  store.append([batch(1, [entry(2, 2)])]);
  assert.equal(show(logOf(logs, 1)), '1: 1@1 2@2');
  const again = openLogs(await temporary.reopen(), FRESH);
  assert.equal(show(logOf(again, 1)), '1: 1@1 2@2');
  assert.equal(show(logOf(again, 2)), '1: 1@1');
});

/** A record fills a segment. */
const ONE_EACH = { bytesMin: 8192, bytesMax: 8192 };

test('a segment is free once a checkpoint is on disk that no group needs it behind', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: ONE_EACH });
  const { store } = temporary;
  const logs = openLogs(store, FRESH);
  // Half of a page each: the log is worth no copy.
  const half = 'x'.repeat(1900);
  for (let i = 1; i <= 20; i++) store.append([batch(1, [entry(i, 1, half)]), batch(2, [entry(i, 1, half)])]);
  const needed = (): number => neededRecords(store.tx, temporary.logFolder).length;
  store.compact(1, 15);
  checkpoint(store);
  assert.equal(needed(), 20, 'group 2 still needs all of them');
  store.compact(2, 10);
  assert.equal(needed(), 20, 'no checkpoint on disk says so yet');
  checkpoint(store);
  assert.equal(needed(), 10);
  assert.equal(show(logOf(logs, 2)).split(':')[0], '11');
  assert.equal(logOf(logs, 2).term(10), 1, 'the term in front of the log is kept');
  const applied: Applied = new Map([
    [1, [15, 1]],
    [2, [10, 1]],
  ]);
  const again = openLogs(await temporary.reopen(), applied);
  assert.equal(neededRecords(temporary.store.tx, temporary.logFolder).length, 10);
  assert.equal(logOf(again, 1).firstIndex(), 16);
  assert.equal(logOf(again, 2).firstIndex(), 11);
  assert.equal(logOf(again, 2).lastIndex(), 20);
});

test('records that a checkpoint covered before a crash are freed after it', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: ONE_EACH });
  openLogs(temporary.store, FRESH);
  for (let i = 1; i <= 5; i++) temporary.store.append([batch(1, [entry(i, 1)])]);
  const applied: Applied = new Map([
    [1, [4, 1]],
    [2, [0, 0]],
  ]);
  const store = await temporary.reopen();
  openLogs(store, applied);
  assert.equal(neededRecords(store.tx, temporary.logFolder).length, 5);
  checkpoint(store);
  assert.equal(neededRecords(store.tx, temporary.logFolder).length, 1);
  store.append([batch(1, [entry(6, 1)])]);
  const again = openLogs(await temporary.reopen(), applied);
  assert.equal(show(logOf(again, 1)), '5: 5@1 6@1');
});

test('an emptied log continues', async (t) => {
  const temporary = new TemporaryStore(t);
  openLogs(temporary.store, FRESH);
  temporary.store.append([batch(1, [entry(1, 1)])]);
  temporary.store.compact(1, 1);
  checkpoint(temporary.store);
  const applied: Applied = new Map([
    [1, [1, 1]],
    [2, [0, 0]],
  ]);
  const store = await temporary.reopen();
  openLogs(store, applied);
  store.append([batch(1, [entry(2, 1)])]);
  const again = openLogs(await temporary.reopen(), applied);
  assert.equal(show(logOf(again, 1)), '2: 2@1');
});

test('votes are kept per group, in the log and after it was freed', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: ONE_EACH });
  openLogs(temporary.store, FRESH);
  assert.deepEqual(voteOf(temporary.store, 1), { term: 0, vote: 0 });
  const [old, first, second] = [
    { term: 4, vote: 1 },
    { term: 5, vote: 3 },
    { term: 2 ** 40, vote: 1 },
  ];
  temporary.store.append([batch(1, [], { ...old, commit: 0 })]);
  temporary.store.append([batch(1, [], { ...first, commit: 0 }), batch(2, [], { ...second, commit: 0 })]);
  let applied = FRESH;
  for (const end of ['in the log', 'in a checkpoint', 'and their segment was used again']) {
    const store = await temporary.reopen();
    openLogs(store, applied);
    assert.deepEqual([voteOf(store, 1), voteOf(store, 2)], [first, second], end);
    assert.deepEqual(voteOf(store, 3), { term: 0, vote: 0 });
    checkpoint(store);
    if (end !== 'in a checkpoint') continue;
    for (let i = 1; i <= 10; i++) {
      store.append([batch(2, [entry(i, 1)])]);
      store.compact(2, i);
      checkpoint(store);
    }
    applied = new Map([...FRESH, [2, [10, 1]]]);
    assert(!recordsIn(temporary.logFolder).some(({ sequence }) => sequence === 2));
  }
});

test('what was replaced stays replaced when another group keeps its record and a checkpoint covers the replacement', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: ONE_EACH });
  const { store } = temporary;
  openLogs(store, FRESH);
  store.append([batch(1, [entry(1, 1)])]);
  store.append([batch(1, [entry(2, 1)]), batch(2, [entry(1, 1)])]);
  store.append([batch(1, [entry(1, 2)])]);
  store.compact(1, 1);
  checkpoint(store);
  const applied: Applied = new Map([
    [1, [1, 2]],
    [2, [0, 0]],
  ]);
  let again = await temporary.reopen();
  let logs = openLogs(again, applied);
  assert.equal(show(logOf(logs, 1)), '2:', '2@1 is void');
  assert.equal(neededRecords(again.tx, temporary.logFolder).length, 2);
  again.compact(2, 1);
  checkpoint(again);
  assert.equal(neededRecords(again.tx, temporary.logFolder).length, 0);
  again = await temporary.reopen();
  logs = openLogs(
    again,
    new Map([
      [1, [1, 2]],
      [2, [1, 1]],
    ]),
  );
  assert.equal(show(logOf(logs, 1)), '2:');
});

test('a snapshot replaces the log even where it went on, and what follows it counts', async (t) => {
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  const logs = openLogs(store, FRESH);
  store.append([batch(1, [entry(1, 1), entry(2, 1), entry(3, 1), entry(4, 1)], { term: 3, vote: 2, commit: 0 })]);
  store.append([snapshotBatch(1, 2, 3), batch(2, [entry(1, 1)])]);
  assert.equal(show(logOf(logs, 1)), '3:');
  const applied: Applied = new Map([
    [1, [2, 3]],
    [2, [0, 0]],
  ]);
  const again = openLogs(await temporary.reopen(), applied);
  assert.equal(show(logOf(again, 1)), '3:');
  assert.deepEqual(voteOf(temporary.store, 1), { term: 3, vote: 2 }, 'a vote does not go with the log');
  temporary.store.append([batch(1, [entry(3, 4)], { term: 4, vote: 1, commit: 0 })]);
  const last = openLogs(await temporary.reopen(), applied);
  assert.equal(show(logOf(last, 1)), '3: 3@4');
  assert.equal(show(logOf(last, 2)), '1: 1@1');
  assert.deepEqual(voteOf(temporary.store, 1), { term: 4, vote: 1 });
});

test('the compactable index leaves the bytes to keep after replacements, drops and restarts', (t) => {
  const random = createRandom(seedFromEnvironment());
  const file = new DiskFolder(new TemporaryStore(t).logFolder).create('segment-1', 4096, 1n);
  t.after(() => file.close());
  const segment = new Segment(file);
  const record = new SegmentRecord(segment, { at: 0, version: 2, sequence: 1, dataBytes: 1 });
  const log = new GroupLog(() => assert.fail('all is in memory'));
  log.startAt(0, 0);
  log.finishLoad();
  for (let turn = 1; turn < 3000; turn++) {
    const behind = random.chance(0.05) ? random.int(0, Math.min(5, log.lastIndex() - log.firstIndex() + 1)) : 0;
    const index = log.lastIndex() + 1 - behind;
    log.push({ record, at: 0 }, { index, term: turn, kind: ENTRY_DATA, data: new Uint8Array(random.int(0, 50)) });
    if (random.chance(0.02)) log.drop(random.int(log.firstIndex() - 1, log.lastIndex()));
    if (random.chance(0.002)) log.restartAt(log.lastIndex() + random.int(0, 10), turn);
    assert.equal(segment.live, log.lastIndex() - log.firstIndex() + 1, 'what is needed of the segment is counted');
    const [upTo, keepBytes] = [random.int(0, log.lastIndex() + 2), random.int(0, 2000)];
    let expected = 0;
    for (let at = log.lastIndex(), kept = 0; at >= log.firstIndex() && expected === 0; at--) {
      kept += (log.entries(at, at + 1, Infinity)[0] as Entry).data.length;
      if (kept > keepBytes && at <= upTo) expected = at;
    }
    assert.equal(log.compactable(upTo, keepBytes), expected);
  }
});

test('entries beyond the budget are on disk only, and are read back unchanged, whatever their size', (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  const { store } = temporary;
  const logs = openLogs(store, FRESH);
  store.setLogMemory({ groupBytes: 100_000, shardBytes: 150_000 });
  const texts = new Map<number, string[]>([
    [1, []],
    [2, []],
  ]);
  for (let i = 1; i <= 60; i++) {
    const batches = [1, 2].map((group) => {
      const text = `${group}/${i} ${'x'.repeat((i * 1709) % 30_000)}`;
      texts.get(group)?.push(text);
      return batch(group, [entry(i, 1, text)]);
    });
    store.append(batches);
    assert(store.logMemoryBytes <= 150_000, `turn ${i}: ${store.logMemoryBytes} bytes in memory`);
  }
  const large = `large ${'y'.repeat(1_000_000)}`;
  store.append([batch(1, [entry(61, 1, large), entry(62, 1, 'small')])]);
  assert(store.logMemoryBytes <= 150_000);
  texts.get(1)?.push(large, 'small');
  for (const [group, all] of texts) {
    const log = logOf(logs, group);
    const found = log.entries(1, all.length + 1, Infinity).map(({ data }) => Buffer.from(data).toString());
    assert.deepEqual(found, all);
    assert.equal(log.entries(1, all.length + 1, 1).length, 1);
  }
  assert(store.logBytesBehind(1, 60) >= large.length);
  assert(store.logBytesBehind(1, 60) <= large.length + 1000);
  assert.equal(store.logBytesBehind(1, 62), 0);
});

test('the newest entry of a group stays in memory while the shard has room, for it is what peers are sent next', (t) => {
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  const log = logOf(openLogs(store, FRESH), 1);
  store.setLogMemory({ groupBytes: 1000, shardBytes: 1e6 });
  store.append([batch(1, [entry(1, 1, 'x'.repeat(50_000))])]);
  log.entries(1, 2, Infinity);
  assert.equal(store.logReadBack, 0);
  store.append([batch(1, [entry(2, 1)])]);
  log.entries(1, 2, Infinity);
  assert.equal(store.logReadBack, 1);
});
