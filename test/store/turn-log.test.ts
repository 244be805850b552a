import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ENTRY_DATA, type Entry, type HardState, type LogReader } from '../../src/raft/types.ts';
import type { TurnBatch } from '../../src/shard/ports.ts';
import type { ShardStore } from '../../src/store/shard-store.ts';
import { GroupLog } from '../../src/store/group-log.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { TemporaryStore } from './temporary.ts';

function entry(index: number, term: number, text = `${index}@${term}`): Entry {
  return { index, term, kind: ENTRY_DATA, data: new Uint8Array(Buffer.from(text)) };
}

function batch(group: number, entries: readonly Entry[], hardState?: HardState): TurnBatch {
  const last = entries.at(-1);
  return {
    group,
    entries,
    hardState,
    snapshot: undefined,
    persistIndex: last?.index ?? 0,
    persistTerm: last?.term ?? 0,
  };
}

/** A group's log as text: `first: 1@1 2@1`. */
function show(log: LogReader): string {
  const entries = log.entries(log.firstIndex(), log.lastIndex() + 1, Infinity);
  return `${log.firstIndex()}: ${entries.map(({ data }) => Buffer.from(data).toString()).join(' ')}`.trim();
}

function open(store: ShardStore, applied: ReadonlyMap<number, readonly [number, number]>): Map<number, LogReader> {
  const logs = new Map<number, LogReader>();
  for (const [group, [index, term]] of applied) logs.set(group, store.openLog(group, index, term));
  store.load();
  return logs;
}

const FRESH = new Map([1, 2].map((group) => [group, [0, 0] as const]));

test('entries come back after a restart, in order and with their terms', async (t) => {
  const temporary = new TemporaryStore(t);
  const logs = open(temporary.store, FRESH);
  temporary.store.commit([batch(1, [entry(1, 1), entry(2, 1)]), batch(2, [entry(1, 3)])], undefined);
  temporary.store.commit([batch(1, [entry(3, 2, 'x'.repeat(300_000))])], undefined);
  temporary.store.commit([batch(2, [entry(2, 3, '')])], undefined);
  const log = logs.get(1) as LogReader;
  assert.equal(log.lastIndex(), 3);
  assert.equal(log.term(3), 2);
  assert.equal(log.entries(1, 4, 1).length, 1, 'one entry goes whatever its size');
  assert.equal(log.entries(1, 4, 6).length, 2);
  const before = [...logs.values()].map(show);
  const again = open(await temporary.reopen(), FRESH);
  assert.deepEqual([...again.values()].map(show), before);
});

test('an entry at an index that exists replaces everything from there on', async (t) => {
  const temporary = new TemporaryStore(t);
  const logs = open(temporary.store, FRESH);
  const { store } = temporary;
  store.commit([batch(1, [entry(1, 1), entry(2, 1), entry(3, 1)])], undefined);
  store.commit([batch(1, [entry(4, 1)]), batch(2, [entry(1, 1)])], undefined);
  store.commit([batch(1, [entry(2, 2)])], undefined);
  assert.equal(show(logs.get(1) as LogReader), '1: 1@1 2@2');
  const again = open(await temporary.reopen(), FRESH);
  assert.equal(show(again.get(1) as LogReader), '1: 1@1 2@2');
  assert.equal(show(again.get(2) as LogReader), '1: 1@1');
});

test('a record is deleted once none of its entries is needed', async (t) => {
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  const logs = open(store, FRESH);
  for (let i = 1; i <= 20; i++) store.commit([batch(1, [entry(i, 1)]), batch(2, [entry(i, 1)])], undefined);
  store.compact(1, 15);
  assert.equal(store.recordsToDelete, 0, 'group 2 still needs all of them');
  store.compact(2, 10);
  assert.equal(store.recordsToDelete, 10);
  assert.equal(show(logs.get(2) as LogReader).split(':')[0], '11');
  assert.equal((logs.get(2) as LogReader).term(10), 1, 'the term in front of the log is kept');
  store.commit([], undefined);
  assert.equal(store.recordsToDelete, 0);
  const again = open(
    await temporary.reopen(),
    new Map([
      [1, [15, 1]],
      [2, [10, 1]],
    ]),
  );
  assert.equal((again.get(1) as LogReader).firstIndex(), 16);
  assert.equal((again.get(2) as LogReader).firstIndex(), 11);
  assert.equal((again.get(2) as LogReader).lastIndex(), 20);
});

test('records that a checkpoint covered before a crash are found and deleted after it', async (t) => {
  const temporary = new TemporaryStore(t);
  open(temporary.store, FRESH);
  for (let i = 1; i <= 5; i++) temporary.store.commit([batch(1, [entry(i, 1)])], undefined);
  const store = await temporary.reopen();
  open(
    store,
    new Map([
      [1, [4, 1]],
      [2, [0, 0]],
    ]),
  );
  assert.equal(store.recordsToDelete, 4);
  store.commit([], undefined);
  assert.equal(store.recordsToDelete, 0);
  store.commit([batch(1, [entry(6, 1)])], undefined);
  const again = open(
    await temporary.reopen(),
    new Map([
      [1, [4, 1]],
      [2, [0, 0]],
    ]),
  );
  assert.equal(show(again.get(1) as LogReader), '5: 5@1 6@1');
});

test('an emptied log continues', async (t) => {
  const temporary = new TemporaryStore(t);
  open(temporary.store, FRESH);
  temporary.store.commit([batch(1, [entry(1, 1)])], undefined);
  temporary.store.compact(1, 1);
  temporary.store.commit([], undefined);
  const applied = new Map([
    [1, [1, 1] as const],
    [2, [0, 0] as const],
  ]);
  const store = await temporary.reopen();
  open(store, applied);
  store.commit([batch(1, [entry(2, 1)])], undefined);
  const again = open(await temporary.reopen(), applied);
  assert.equal(show(again.get(1) as LogReader), '2: 2@1');
});

test('votes are kept per group', async (t) => {
  const temporary = new TemporaryStore(t);
  open(temporary.store, FRESH);
  assert.deepEqual(temporary.store.vote(1), { term: 0, vote: 0 });
  temporary.store.commit(
    [batch(1, [], { term: 5, vote: 3, commit: 0 }), batch(2, [], { term: 2 ** 40, vote: 1, commit: 0 })],
    undefined,
  );
  const store = await temporary.reopen();
  assert.deepEqual(
    [store.vote(1), store.vote(2)],
    [
      { term: 5, vote: 3 },
      { term: 2 ** 40, vote: 1 },
    ],
  );
  assert.deepEqual(store.vote(3), { term: 0, vote: 0 });
});

test('a commit whose checkpoint throws leaves nothing behind, and its turn can be repeated', async (t) => {
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  const logs = open(store, FRESH);
  store.commit([batch(1, [entry(1, 1)])], undefined);
  store.compact(1, 1);
  const key = new Uint8Array([0, 1, 0x68]);
  const failing = (): void => {
    store.tx.put(key, new Uint8Array([1]));
    throw new Error('planned');
  };
  const batches = [batch(1, [entry(2, 1)], { term: 9, vote: 9, commit: 0 })];
  assert.throws(() => store.commit(batches, failing), /planned/);
  assert.equal(store.tx.get(key), undefined);
  assert.deepEqual(store.vote(1), { term: 0, vote: 0 });
  assert.equal((logs.get(1) as LogReader).lastIndex(), 1);
  assert.equal(store.recordsToDelete, 1, 'the deletion is rolled back too');
  store.commit(batches, undefined);
  assert.equal(show(logs.get(1) as LogReader), '2: 2@1');
  const again = open(
    await temporary.reopen(),
    new Map([
      [1, [1, 1]],
      [2, [0, 0]],
    ]),
  );
  assert.equal(show(again.get(1) as LogReader), '2: 2@1');
});

test('what was replaced stays replaced when another group keeps its record and a checkpoint covers the replacement', async (t) => {
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  open(store, FRESH);
  store.commit([batch(1, [entry(1, 1)])], undefined);
  store.commit([batch(1, [entry(2, 1)]), batch(2, [entry(1, 1)])], undefined);
  store.commit([batch(1, [entry(1, 2)])], undefined);
  store.compact(1, 1);
  store.commit([], undefined);
  const applied = new Map([
    [1, [1, 2] as const],
    [2, [0, 0] as const],
  ]);
  let again = await temporary.reopen();
  let logs = open(again, applied);
  assert.equal(show(logs.get(1) as LogReader), '2:', '2@1 is void');
  // Once the other group is compacted, both records go.
  again.compact(2, 1);
  again.commit([], undefined);
  assert.equal(again.recordsToDelete, 0);
  again = await temporary.reopen();
  logs = open(
    again,
    new Map([
      [1, [1, 2]],
      [2, [1, 1]],
    ]),
  );
  assert.equal(show(logs.get(1) as LogReader), '2:');
  assert.equal(again.recordsToDelete, 0, 'nothing is left on disk');
});

/** Nothing, next to nothing, what a few entries take, and all. */
const MEMORIES = [0, 150, 700, 1e9].map((bytes) => ({ groupBytes: bytes, shardBytes: 2 * bytes }));

/** What the log should hold, and what of it may be forgotten. */
interface Expected {
  entries: Entry[];
  applied: number;
  appliedTerm: number;
}

/** A snapshot replaces the whole log, even where the log continued after it. */
function snapshotAt(group: number, one: Expected, index: number, term: number): TurnBatch {
  one.entries = Array.from({ length: index }, (_, i) => one.entries[i] ?? entry(i + 1, term));
  one.entries[index - 1] = entry(index, term, 'never in the log');
  one.applied = index;
  one.appliedTerm = term;
  const configuration = { voters: [1], votersOutgoing: [], learners: [] };
  return { ...batch(group, []), snapshot: { index, term, configuration } };
}

test('random turns, conflicts, snapshots, checkpoints, trims and restarts: a log never holds what was replaced', async (t) => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  const temporary = new TemporaryStore(t);
  let { store } = temporary;
  const groups = [1, 2, 3];
  const model = new Map<number, Expected>(groups.map((group) => [group, { entries: [], applied: 0, appliedTerm: 0 }]));
  const applied = (): Map<number, readonly [number, number]> =>
    new Map([...model].map(([group, one]) => [group, [one.applied, one.appliedTerm] as const]));
  let logs = open(store, applied());
  let term = 1;
  let readBack = 0;
  for (let turn = 0; turn < 1500; turn++) {
    store.setLogMemory(random.pick(MEMORIES));
    const batches: TurnBatch[] = [];
    for (const group of groups) {
      if (random.chance(0.4)) continue;
      const one = model.get(group) as Expected;
      if (random.chance(0.03)) {
        batches.push(snapshotAt(group, one, one.applied + random.int(1, 6), ++term));
        continue;
      }
      // A conflict never reaches below what is applied.
      const keep = random.chance(0.15) ? random.int(one.applied, one.entries.length) : one.entries.length;
      if (keep < one.entries.length) term++;
      one.entries.length = keep;
      const added = Array.from({ length: random.int(1, 3) }, (_, i) =>
        entry(keep + i + 1, term, `${group}:${turn}:${keep + i + 1}`),
      );
      one.entries.push(...added);
      batches.push(batch(group, added));
    }
    store.commit(batches, undefined);
    for (const [group, one] of model) {
      // Rarely, and not all groups alike: some records then live long because of one group.
      if (!random.chance(group === 1 ? 0.02 : 0.2)) continue;
      one.applied = random.int(one.applied, one.entries.length);
      one.appliedTerm = one.entries[one.applied - 1]?.term ?? 0;
      if (one.applied > 0) store.compact(group, one.applied);
    }
    if (random.chance(0.04)) {
      readBack += store.logReadBack;
      store = await temporary.reopen();
      store.setLogMemory(random.pick(MEMORIES));
      logs = open(store, applied());
    }
    for (const [group, one] of model) {
      const log = logs.get(group) as LogReader;
      const expected = one.entries.slice(log.firstIndex() - 1).map(({ data }) => Buffer.from(data).toString());
      assert.equal(
        show(log),
        `${log.firstIndex()}: ${expected.join(' ')}`.trim(),
        `SEED=${seed} turn ${turn} group ${group}`,
      );
      assert(log.firstIndex() <= one.applied + 1, `SEED=${seed} turn ${turn}`);
    }
  }
  assert(readBack > 1000, `${readBack} entries were read back`);
});

test('the compactable index leaves the bytes to keep after replacements, drops and restarts', () => {
  const random = createRandom(seedFromEnvironment());
  const log = new GroupLog(() => assert.fail('all is in memory'));
  log.startAt(0, 0);
  for (let turn = 1; turn < 3000; turn++) {
    const behind = random.chance(0.05) ? random.int(0, Math.min(5, log.lastIndex() - log.firstIndex() + 1)) : 0;
    const index = log.lastIndex() + 1 - behind;
    log.push(turn, 0, { index, term: turn, kind: ENTRY_DATA, data: new Uint8Array(random.int(0, 50)) });
    if (random.chance(0.02)) log.drop(random.int(log.firstIndex() - 1, log.lastIndex()));
    if (random.chance(0.002)) log.restartAt(log.lastIndex() + random.int(0, 10), turn);
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
  const temporary = new TemporaryStore(t);
  const { store } = temporary;
  const logs = open(store, FRESH);
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
    store.commit(batches, undefined);
    assert(store.logMemoryBytes <= 150_000, `turn ${i}: ${store.logMemoryBytes} bytes in memory`);
  }
  const large = `large ${'y'.repeat(1_000_000)}`;
  store.commit([batch(1, [entry(61, 1, large), entry(62, 1, 'small')])], undefined);
  assert(store.logMemoryBytes <= 150_000);
  texts.get(1)?.push(large, 'small');
  for (const [group, all] of texts) {
    const log = logs.get(group) as LogReader;
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
  const log = open(store, FRESH).get(1) as LogReader;
  store.setLogMemory({ groupBytes: 1000, shardBytes: 1e6 });
  store.commit([batch(1, [entry(1, 1, 'x'.repeat(50_000))])], undefined);
  log.entries(1, 2, Infinity);
  assert.equal(store.logReadBack, 0);
  store.commit([batch(1, [entry(2, 1)])], undefined);
  log.entries(1, 2, Infinity);
  assert.equal(store.logReadBack, 1);
});
