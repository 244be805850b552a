// Rows that the disk changed: reads and writes that need one are refused, the others are not; a group stops when
// applying meets one, and is never answered from.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { CHECKPOINT_MS } from '../../src/shard/checkpoints.ts';
import { DamagedGroups } from '../../src/shard/damaged-groups.ts';
import { SINGLE_NODE } from '../../src/shard/single-node.ts';
import type { ShardStorage } from '../../src/shard/ports.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';
import { Harness, code, find, tails } from './harness.ts';
import { MemoryStorage } from './memory-ports.ts';

const [GROUP, OTHER] = [0, 1];
const PRODUCER = 'writer';
const TOPIC = 7;

const codeOf = (harness: Harness, slot: number): string => code(find(harness.turn(), slot));
const endsWith = (key: Uint8Array, word: string): boolean => Buffer.from(key).toString('latin1').endsWith(word);

/** With the streams `sound` and `rotten`, in the store and nowhere else; `rotten` is the second incarnation. */
function started(): Harness {
  const harness = new Harness([GROUP, OTHER]);
  for (const group of [GROUP, OTHER]) for (const name of ['sound', 'rotten']) harness.create(group, name);
  harness.turn();
  for (const group of [GROUP, OTHER]) {
    harness.append(group, 'sound', 'sound;');
    harness.append(group, 'rotten', 'PRECIOUS;', { producer: [PRODUCER, 0, 0] });
  }
  harness.turn();
  for (let i = 0; i < 4; i++) harness.turn(CHECKPOINT_MS);
  harness.restart();
  return harness;
}

const isIncarnation = (key: Uint8Array, number: number): boolean => key[8] === number;
const isHead = (key: Uint8Array): boolean => key[1] === GROUP && key[2] === TAG.head && endsWith(key, 'rotten');
const rottenRow =
  (tag: number) =>
  (key: Uint8Array): boolean =>
    key[1] === GROUP && key[2] === tag && isIncarnation(key, 2);

function counters(harness: Harness): unknown[] {
  const { counters: all } = harness.status();
  return [all['damaged_rows'], all['damaged_groups']];
}

function servesOthers(harness: Harness): void {
  assert.equal(harness.contents(OTHER, 'rotten'), 'PRECIOUS;');
  assert.equal(codeOf(harness, harness.append(OTHER, 'sound', 'more;')), 'OK');
}

for (const [what, tag] of [
  ['a data row', TAG.data],
  ['a head', TAG.head],
  ['a producer', TAG.producer],
] as const) {
  test(`${what} that changed refuses its stream, for reads and writes, and nothing else`, () => {
    const harness = started();
    harness.storage.isDamaged = tag === TAG.head ? isHead : rottenRow(tag);
    for (let i = 0; i < 2; i++) {
      if (tag !== TAG.producer) assert.equal(codeOf(harness, harness.read(GROUP, 'rotten')), 'ROW_DAMAGED');
      const more = harness.append(GROUP, 'rotten', 'more;', { producer: [PRODUCER, 0, 1] });
      assert.equal(codeOf(harness, more), 'ROW_DAMAGED');
      if (tag === TAG.head) assert.equal(codeOf(harness, harness.create(GROUP, 'rotten')), 'ROW_DAMAGED');
      if (tag === TAG.head) assert.equal(codeOf(harness, harness.remove(GROUP, 'rotten')), 'ROW_DAMAGED');
      assert.equal(codeOf(harness, harness.append(GROUP, 'sound', 'more;')), 'OK');
      assert.match(harness.contents(GROUP, 'sound'), /^sound;(more;)+$/);
      servesOthers(harness);
      for (let turns = 0; turns < 3; turns++) harness.turn(CHECKPOINT_MS);
    }
    assert.deepEqual(counters(harness), [1, 0]);
    assert.equal(harness.logLines.filter((line) => /the disk changed a row/.test(line)).length, 1);
  });
}

test('a data row that is gone, as one whose key changed, refuses its stream, and nothing else', () => {
  const harness = started();
  harness.storage.isGone = rottenRow(TAG.data);
  for (let i = 0; i < 2; i++) {
    for (const offset of [0, 4]) assert.equal(codeOf(harness, harness.read(GROUP, 'rotten', 0, offset)), 'ROW_DAMAGED');
    assert.equal(codeOf(harness, harness.append(GROUP, 'rotten', 'more;')), 'ROW_DAMAGED');
    servesOthers(harness);
    assert.equal(harness.contents(GROUP, 'sound'), 'sound;');
    harness.turn(CHECKPOINT_MS);
  }
  harness.storage.isGone = () => false;
  assert.equal(harness.contents(GROUP, 'rotten'), 'PRECIOUS;');
});

test('a group whose entry needs a changed row stops: nothing is answered from it, nor written, also after a restart', () => {
  const harness = started();
  const { storage } = harness;
  storage.isDamaged = isHead;
  harness.read(GROUP, 'sound', TOPIC);
  const before = harness.append(GROUP, 'sound', 'before;');
  // It looks at all heads, and no single stream that could be read ahead.
  const slot = harness.push(requestFor(COMMANDS.purge, GROUP, { bucket: 'bucket', after: '' }));
  const behind = harness.append(GROUP, 'sound', 'behind;');
  const replies = harness.turn();
  assert.deepEqual(
    [before, slot, behind].map((one) => code(find(replies, one))),
    ['OK', 'OUTCOME_UNKNOWN', 'OUTCOME_UNKNOWN'],
  );
  const told = tails(replies, TOPIC).at(-1) ?? assert.fail('its live readers are told to read again');
  assert.equal(code(told), 'ROW_DAMAGED');
  const appliedMeta = (): Uint8Array | undefined => storage.tx.get(Uint8Array.of(0, GROUP, TAG.meta))?.slice();
  const stored = appliedMeta();
  for (let i = 0; i < 2; i++) {
    for (const name of ['sound', 'rotten']) {
      assert.equal(codeOf(harness, harness.read(GROUP, name)), 'ROW_DAMAGED');
      assert.equal(codeOf(harness, harness.append(GROUP, name, 'more;')), 'ROW_DAMAGED');
    }
    servesOthers(harness);
    assert.deepEqual(counters(harness), [1, 1]);
    for (let turns = 0; turns < 3; turns++) harness.turn(CHECKPOINT_MS);
    assert.deepEqual(appliedMeta(), stored);
    harness.restart();
  }
  // The log has all of it: with the row as it was written, the group goes on.
  storage.isDamaged = () => false;
  harness.restart();
  assert.equal(codeOf(harness, harness.read(GROUP, 'sound')), 'STREAM_NOT_FOUND', 'the purge went on');
});

test('a bucket row that changed stops no read of a stream; a garbage mark that changed stops nothing', () => {
  const harness = started();
  harness.remove(GROUP, 'rotten');
  harness.turn();
  harness.storage.isDamaged = (key) => key[1] === GROUP && (key[2] === TAG.bucket || key[2] === TAG.garbage);
  for (let turns = 0; turns < 3; turns++) harness.turn(CHECKPOINT_MS);
  assert.equal(harness.contents(GROUP, 'sound'), 'sound;');
  assert.deepEqual(counters(harness)[1], 0);
  servesOthers(harness);
});

test('a group of whose lifetimes the list cannot be read lets nothing expire, asks again in a minute, and others go on', () => {
  const harness = started();
  for (const group of [GROUP, OTHER]) harness.create(group, 'short', { ttl: 1 });
  harness.turn();
  harness.storage.isHidden = (start) => start[1] === GROUP && start[2] === TAG.expiry;
  const lastIndexes = (): number[] => harness.shard.groups.map(({ raft }) => raft.lastIndex);
  const [before = 0, other = 0] = lastIndexes();
  for (let i = 0; i < 20; i++) harness.turn(250);
  assert.deepEqual(lastIndexes(), [before, other + 1]);
  assert.equal(harness.logLines.filter((line) => /the disk changed a row/.test(line)).length, 1);
  assert.equal(codeOf(harness, harness.append(GROUP, 'sound', 'more;')), 'OK');
  harness.storage.isHidden = () => false;
  for (let i = 0; i < 2; i++) harness.turn(60_000);
  assert.deepEqual(lastIndexes(), [before + 2, other + 1], 'the append, and what is over');
});

test('a row whose key is too short for any is noticed, and belongs to no group', () => {
  const said: unknown[] = [];
  const memory = new MemoryStorage();
  const storage: Pick<ShardStorage, 'onDamage' | 'openRanges' | 'scrub' | 'tx'> = {
    ...memory,
    openRanges: (ranges) => memory.openRanges(ranges),
    onDamage: () => undefined,
  };
  const damaged = new DamagedGroups({
    groups: [],
    nodeId: 1,
    replication: SINGLE_NODE,
    commits: { checkpointMs: () => 0, isWriting: () => false, lastCheckpoint: () => 0 },
    damages: new Map(),
    storage,
    log: (_level, message, fields) => said.push([message, fields?.['group']]),
    reload: () => undefined,
    settle: () => undefined,
  });
  for (const key of [[], [0]]) storage.onDamage(new RowDamage(Uint8Array.from(key), 'the test says so'));
  assert.equal(damaged.counters.damagedRows, 2);
  assert.deepEqual(said, Array(2).fill(['the disk changed a row of the state: what needs it is refused', undefined]));
});

test('pages of which no row can be read end the shard, and are no pass over all rows', () => {
  const harness = started();
  harness.more = { scrub: { bytesPerSecond: 1e6, pauseMs: 100 } };
  harness.restart();
  harness.turn(200);
  harness.storage.scrub.step = () => {
    throw new Error('data.mdb is damaged');
  };
  assert.throws(() => harness.turn(200), /data\.mdb is damaged/);
  harness.storage.scrub.step = () => ({ bytes: 512, isEnd: true });
  assert.equal(harness.status(300).counters['scrubs'], 0);
  assert.equal(harness.status(300).counters['scrubs'], 1);
});
