// Checkpoints that are slower than the writes, or hang: what waits for them is bounded, in memory and in the log, and
// none of it is lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedBytesMax } from '../../src/shard/backlog.ts';
import { adminRequest } from '../sim/requests.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';
import type { Entry } from '../../src/raft/types.ts';
import { encodeMetadata } from '../../src/shard/snapshot-metadata.ts';
import { Follower, entry } from './follower.ts';
import { Harness, code, find } from './harness.ts';
import { MemoryStorage } from './memory-ports.ts';

const KIB = 1024;
const BOUND_BYTES = 64 * KIB;
const BODY_BYTES = 4 * KIB;
/** One entry beyond the bound: a body, its stream, and what the state says about itself. */
const LARGEST_BYTES = BODY_BYTES + 2 * KIB;

function unwritten({ shard }: Harness): number {
  return shard.status.changedBytes;
}

function word(number: number): string {
  return `${number}:`.padEnd(BODY_BYTES, '.');
}

/** A shard whose checkpoints hang. */
function hanging(changedBytesMax = BOUND_BYTES): Harness {
  const harness = new Harness([0, 1], new MemoryStorage(), { changedBytesMax, entryFillBytes: 1 });
  for (const group of [0, 1]) harness.create(group, 's');
  harness.turn();
  harness.storage.checkpointLooks = Infinity;
  return harness;
}

/** Writes until a write is refused, at most `count` times; the slots of those that were not. */
function fill(harness: Harness, count: number): { readonly slots: number[]; readonly refused: string | undefined } {
  const slots: number[] = [];
  for (let i = 0; i < count; i++) {
    const slot = harness.append(i % 2, 's', word(i));
    const replies = harness.turn();
    assert(unwritten(harness) <= BOUND_BYTES + LARGEST_BYTES, `${unwritten(harness)} bytes wait for a checkpoint`);
    const refusal = replies.find((reply) => reply.id === slot && reply.code !== 0);
    if (refusal !== undefined) return { slots, refused: code(refusal) };
    slots.push(slot);
  }
  return { slots, refused: undefined };
}

/** The stream and its bytes, an entry each. */
function written(index: number): Entry {
  return index === 1 ? entry(1, 1, COMMANDS.create.number) : entry(index, 1, COMMANDS.append.number, `${index};`);
}

/** Acknowledgements that left since the last call, by index. */
function acknowledged(follower: Follower): number[] {
  return follower.sent.splice(0).flatMap((one) => (one.type === 'append-response' && !one.reject ? [one.index] : []));
}

test('a follower acknowledges what is on disk, takes more meanwhile, and has it on disk with the next sync', () => {
  const follower = new Follower();
  const { storage } = follower;
  storage.isSyncSlow = true;
  follower.append(1, [0, 0], [written(1)], 0);
  follower.turn();
  assert.deepEqual([storage.isSyncing, acknowledged(follower)], [true, []]);
  const { commits } = storage;
  follower.append(1, [1, 1], [written(2)], 0);
  follower.append(1, [2, 1], [written(3)], 0);
  follower.turn();
  assert.deepEqual([storage.commits, acknowledged(follower)], [commits, []], 'nothing is written behind it');
  storage.isSyncing = false;
  follower.turn();
  assert.deepEqual([storage.commits, storage.isSyncing], [commits + 1, true], 'both in one record');
  assert.deepEqual(acknowledged(follower), [1]);
  storage.isSyncing = false;
  follower.turn();
  assert.equal(acknowledged(follower).at(-1), 3);
});

test('a shard that stops waits for the sync that is under way', () => {
  const follower = new Follower();
  const { storage, shard } = follower;
  storage.isSyncSlow = true;
  follower.append(1, [0, 0], [written(1)], 0);
  follower.turn();
  follower.append(1, [1, 1], [written(2)], 0);
  shard.stop(1_700_000_000_000, follower.clockMs);
  assert.deepEqual([storage.isSyncing, acknowledged(follower)], [false, [1, 2]]);
});

test('a sync that hangs is waited for: the shard is silent, and another node leads', () => {
  const follower = new Follower({ runtime: { monotonicMs: () => follower.clockMs } });
  const { storage } = follower;
  storage.isSyncSlow = true;
  follower.append(1, [0, 0], [written(1)], 0);
  follower.turn();
  follower.turn(900);
  assert.equal(storage.isSyncing, true);
  follower.turn(200);
  assert.deepEqual([storage.isSyncing, acknowledged(follower)], [false, [1]]);
});

test('while a checkpoint hangs, entries wait in the log, then writes are refused; all come through behind it', () => {
  const harness = hanging();
  const { slots, refused } = fill(harness, 100);
  assert.equal(refused, 'SHARD_BUSY');
  assert(slots.length * BODY_BYTES > BOUND_BYTES, 'the bound was reached');
  const { storage, shard } = harness;
  const log = [0, 1].reduce((sum, group) => sum + storage.logBytesBehind(group, 0), 0);
  assert(log <= 2 * BOUND_BYTES + LARGEST_BYTES, `the log has ${log} bytes`);
  assert.equal(shard.status.counters.refusedDiskSlow, 1);
  assert.equal(harness.contents(0, 's').slice(0, 2), '0:', 'reads go on');
  assert(harness.shard.waitMs(harness.clockMs) > 0, 'it does not turn without a pause');
  storage.checkpointLooks = 0;
  for (let i = 0; i < 20; i++) harness.turn(5);
  assert.equal(
    harness.contents(0, 's').length + harness.contents(1, 's').length,
    slots.length * BODY_BYTES,
    'what was taken is there',
  );
  const next = harness.append(0, 's', 'x');
  assert.equal(code(find(harness.turn(), next)), 'OK');
});

test('writes that wait for a checkpoint are answered behind it, and a crash before loses none that were', () => {
  const harness = hanging();
  const { slots } = fill(harness, 100);
  const answered = new Set<number>();
  const waiting = slots.length;
  harness.storage.checkpointLooks = 0;
  for (let i = 0; i < 20; i++) for (const { id } of harness.turn(5)) answered.add(id);
  assert(answered.size > 0 && answered.size < waiting, `${answered.size} of ${waiting} had to wait`);
  harness.restart();
  for (let i = 0; i < 20; i++) harness.turn(5);
  assert.equal(harness.contents(0, 's').length + harness.contents(1, 's').length, waiting * BODY_BYTES);
});

test('a body larger than the bound is applied when nothing else waits', () => {
  const harness = hanging();
  harness.storage.checkpointLooks = 0;
  for (let i = 0; i < 3; i++) {
    const slot = harness.append(0, 's', new Uint8Array(4 * BOUND_BYTES), { isTransferred: true });
    const replies = harness.turn();
    for (let turns = 0; turns < 5; turns++) replies.push(...harness.turn(5));
    assert.equal(code(find(replies, slot)), 'OK');
  }
});

test('a start replays a log of any size checkpoint by checkpoint, and shows nothing before the end of it', () => {
  const harness = hanging(changedBytesMax(1));
  const count = 200;
  for (let i = 0; i < count; i++) harness.append(i % 2, 's', word(i));
  harness.turn();
  assert(unwritten(harness) > 10 * BOUND_BYTES, 'a shard with a larger bound has written it');
  harness.storage.checkpointLooks = 2;
  harness.more = { ...harness.more, changedBytesMax: BOUND_BYTES };
  harness.restart();
  const early = harness.read(0, 's');
  const replies = [];
  let turns = 0;
  for (; harness.shard.groups.some(({ raft }) => raft.appliedIndex < raft.commitIndex); turns++) {
    assert(turns < 1000, 'the replay comes to its end');
    replies.push(...harness.turn(5));
    assert(unwritten(harness) <= BOUND_BYTES + 2 * LARGEST_BYTES, `${unwritten(harness)} bytes wait for a checkpoint`);
  }
  replies.push(...harness.turn(5));
  assert(turns > 10, `it took ${turns} turns`);
  assert.equal(find(replies, early).body?.length, (count / 2) * BODY_BYTES, 'a read waits for all of the log');
});

test('a follower takes no entries while it has no room, says so by silence, and goes on behind the checkpoint', () => {
  const follower = new Follower({ changedBytesMax: BOUND_BYTES });
  const { storage } = follower;
  storage.checkpointLooks = Infinity;
  const last = (): number => storage.logs.get(0)?.lastIndex() ?? 0;
  const body = 'x'.repeat(900);
  follower.append(1, [0, 0], [entry(1, 1, COMMANDS.create.number)], 1);
  follower.turn();
  let index = 1;
  let taken = 0;
  // The leader sends the next entry, or the same one again.
  for (let i = 0; i < 1000; i++) {
    follower.append(1, [index, 1], [entry(index + 1, 1, COMMANDS.append.number, body)], index + 1);
    follower.turn();
    if (last() === index) break;
    index = last();
    taken += 1;
  }
  assert(taken < 1000, 'it takes no more in the end');
  assert(taken * body.length < 2 * BOUND_BYTES + LARGEST_BYTES, `it took ${taken * body.length} bytes`);
  const applied = follower.shard.groups[0]?.state.appliedIndex ?? 0;
  assert(applied < last(), 'entries wait');
  follower.sent.length = 0;
  follower.append(1, [last(), 1], [], last());
  follower.turn();
  assert(follower.sent.length > 0, 'a leader still hears from it');
  storage.checkpointLooks = 0;
  for (let i = 0; i < 20; i++) follower.turn(5);
  assert.equal(follower.shard.groups[0]?.state.appliedIndex, last());
  follower.append(1, [index, 1], [entry(index + 1, 1, COMMANDS.append.number, body)], index + 1);
  follower.turn();
  assert.equal(last(), index + 1);
});

test('rows of a group snapshot wait for a checkpoint that hangs, and the shard does not', () => {
  const follower = new Follower();
  const { storage, shard, paces } = follower;
  follower.append(1, [0, 0], [written(1), written(2)], 2);
  storage.checkpointLooks = Infinity;
  follower.turn();
  follower.turn(1100);
  const commits: string[] = [];
  storage.clearStage = () => commits.push('clear') > 0;
  storage.stage = (_group, pieces) => void commits.push(`stage ${pieces.length}`);
  follower.turn(1100);
  assert.deepEqual(commits, []);
  const snapshot = { group: 0, node: 2, receivedBytes: 0 };
  const configuration = { voters: [1, 2, 3], votersOutgoing: [], learners: [] };
  const meta = { index: 2, term: 1, configuration };
  const about = { from: 2, to: 1, term: 1, round: 9, allowedBoot: 0, restored: false } as const;
  shard.replication.snapshots.onSnapshotBegin(
    snapshot,
    { type: 'snapshot', ...about, snapshot: meta },
    encodeMetadata(meta),
  );
  for (let i = 0; i < 10; i++) shard.replication.snapshots.onSnapshotChunk(snapshot, new Uint8Array(32 * KIB));
  shard.replication.snapshots.onSnapshotComplete(snapshot);
  follower.turn(100);
  assert.deepEqual([commits, paces], [[], ['hold']]);
  storage.checkpointLooks = 0;
  for (let i = 0; i < 5; i++) follower.turn(100);
  assert.deepEqual(commits.slice(0, 3), ['stage 8', 'stage 2', 'clear']);
  assert.deepEqual(paces, ['hold', 'resume', 'installed']);
});

test('a checkpoint that hangs is told with its file and its seconds, ends nothing, and nothing waits for it', () => {
  const harness = hanging();
  harness.append(0, 's', 'x');
  harness.turn();
  harness.turn(1000);
  for (let i = 0; i < 400; i++) harness.turn(100);
  const told = harness.logLines.filter((line) => line.includes('hangs'));
  assert.deepEqual(
    told.map((line) => line.replace(/^.*yet; [^{]*/, '')),
    [5, 10, 20, 40].map((seconds) => `{"shard":0,"file":"data.mdb","seconds":${seconds}}`),
  );
  const status = harness.status();
  assert.equal(status['disk_slow'], false, 'writes are still taken');
  const snapshot = harness.push(adminRequest(0, { call: 'snapshot' }));
  const opening = harness.push(requestFor(QUERIES.exportGroup, 0, { step: 'open' }));
  const replies = harness.turn();
  const { outcome, body } = QUERIES.admin.result.read(find(replies, snapshot));
  assert.deepEqual([outcome, code(find(replies, opening))], ['retry', 'SHARD_BUSY'], 'the disk has room');
  assert.match(JSON.stringify(body), /^"the disk is slow or hangs: /);
  assert.equal(harness.contents(0, 's'), 'x', 'the turn did not wait');
  assert.equal(fill(harness, 100).refused, 'SHARD_BUSY');
  assert.equal(harness.status()['disk_slow'], true);
  harness.storage.checkpointLooks = 0;
  for (let i = 0; i < 20; i++) harness.turn(5);
  assert.match(harness.logLines.join('\n'), /info the checkpoint that took long has ended/);
  assert.equal(harness.status()['disk_slow'], false);
});
