// The compactor: slow streams end in few chunks, and what it does when the store, its sources or its leadership fail
// it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachChunk } from '../../../src/stream/cold/chunks.ts';
import { TAG } from '../../../src/stream/core/keys.ts';
import { ColdHarness } from './harness.ts';
import { code, find } from '../../shard/harness.ts';

const SLOW = { flushIntervalMs: 10, gcGraceMs: 0, mergedGraceMs: 0 };
const text = (count: number): string => Array.from({ length: count }, (_, i) => `message ${i};`).join('');
const holdMerges = (op: string): 'ok' | undefined => (op === 'merge' ? undefined : 'ok');

function started(settings: ConstructorParameters<typeof ColdHarness>[0] = {}): ColdHarness {
  const harness = new ColdHarness({ ...SLOW, ...settings });
  harness.create(0, 's');
  harness.turn();
  return harness;
}

/** A chunk for each message [from, to). */
function appendSlowly(
  harness: ColdHarness,
  from: number,
  to: number,
  how?: Parameters<ColdHarness['run']>[1],
  streams: readonly string[] = ['s'],
  group = 0,
): void {
  for (let i = from; i < to; i++) {
    for (const stream of streams) {
      const slot = harness.append(group, stream, `message ${i};`);
      assert.equal(code(find(harness.turn(), slot)), 'OK');
    }
    harness.run(75, how);
  }
}

function chunksOf(harness: ColdHarness, stream = 's', group = 0): number {
  const key = new Uint8Array(Buffer.from(`bucket\0${stream}`));
  const { state } = harness.groupOf(group);
  let count = 0;
  eachChunk(state, state.find(key, 0, key.length)?.incarnation ?? -1, 0, () => ++count > 0);
  return count;
}

function counter(harness: ColdHarness, name: string): number {
  const value = harness.status().counters[`cold_compaction_${name}`];
  assert(value !== undefined, name);
  return value;
}

/** Until a merge is asked for; returns how many messages there are. */
function untilMerge(harness: ColdHarness, how: Parameters<ColdHarness['run']>[1] = holdMerges): number {
  let count = 0;
  while (harness.port.count('merge') === 0) {
    assert(count < 200, 'a merge is asked for');
    appendSlowly(harness, count, ++count, how);
  }
  return count;
}

test('a stream that grows slowly is always in few chunks and objects', () => {
  const harness = started();
  let most = 0;
  for (let count = 0; count < 600; count += 20) {
    appendSlowly(harness, count, count + 20);
    most = Math.max(most, chunksOf(harness));
  }
  // Sixteen of each of two tiers, and those of the last flushes that were not looked at yet.
  assert(most <= 90, `up to ${most} chunks`);
  assert(chunksOf(harness) < 60, `${chunksOf(harness)} chunks`);
  assert.equal(harness.whole('s').toString(), text(600));
  harness.run(3000);
  const { state } = harness.groupOf();
  assert.equal(harness.port.objects.size, state.cold.objects, 'the old objects are gone');
  assert(state.cold.objects <= chunksOf(harness));
  assert(counter(harness, 'chunks_merged') >= 500);
  assert.equal(counter(harness, 'jobs'), counter(harness, 'publishes'));
  assert.equal(counter(harness, 'running'), 0);
  assert.equal(harness.whole('s').toString(), text(600));
});

test('streams that are flushed together are merged together', () => {
  const harness = started();
  const streams = ['s', 'a', 'b', 'c', 'd', 'e', 'f', 'g'];
  for (const stream of streams.slice(1)) harness.create(0, stream);
  harness.turn();
  // Candidates gather while the store is not asked.
  appendSlowly(harness, 0, 60, holdMerges, streams);
  harness.run(200);
  appendSlowly(harness, 60, 61, undefined, streams);
  const [most] = harness.port.merged.map(({ sources }) => sources).sort((a, b) => b - a);
  assert((most as number) > 120, `${most} chunks in one object`);
  for (const stream of streams) assert.equal(harness.whole(stream).toString(), text(61));
});

test('switched off, nothing is merged', () => {
  const harness = started({ compactRunMin: 0 });
  appendSlowly(harness, 0, 60);
  assert.equal(harness.port.merged.length, 0);
  assert.equal(chunksOf(harness), 60);
});

test('a store that refuses is asked again, later each time and with another key', () => {
  const harness = started();
  const failing = (op: string): 'ok' | 'error' => (op === 'merge' ? 'error' : 'ok');
  appendSlowly(harness, 0, 100, failing);
  harness.run(20_000, failing);
  const tries = harness.port.merged.length;
  assert(tries >= 5 && tries <= 20, `${tries} tries`);
  assert.equal(counter(harness, 'errors'), tries);
  assert.equal(chunksOf(harness), 100);
  harness.run(6000);
  assert(chunksOf(harness) < 50);
  assert.equal(harness.whole('s').toString(), text(100));
});

test('an answer that is lost leaves an orphan, which goes; the chunks are merged another time', () => {
  const harness = started();
  const count = untilMerge(harness);
  harness.port.answer('lost', 'merge');
  assert.equal(chunksOf(harness), count);
  harness.run(30_000);
  assert(chunksOf(harness) < count);
  assert.equal(harness.port.objects.size, harness.groupOf().state.cold.objects);
  assert.equal(harness.whole('s').toString(), text(count));
});

test('a source that was altered: its stream is left alone, others in the job are merged', () => {
  const harness = started();
  const streams = ['s', 'a', 'b'];
  for (const stream of streams.slice(1)) harness.create(0, stream);
  harness.turn();
  let count = 0;
  while (harness.port.count('merge') === 0) appendSlowly(harness, count, ++count, holdMerges, streams);
  const asked = harness.port.open.find(({ task }) => task.op === 'merge');
  assert(asked?.task.op === 'merge');
  const ref = asked.task.slices[0]?.refs[3];
  const body = harness.port.objects.get(ref?.key ?? '')?.body;
  assert(ref !== undefined && body !== undefined);
  // The object has chunks of other streams; only this one's is altered.
  body[ref.at + 60] = (body[ref.at + 60] as number) ^ 1;
  appendSlowly(harness, count, (count += 60), undefined, streams);
  assert.equal(counter(harness, 'bad_sources'), 1);
  assert.equal(streams.filter((stream) => chunksOf(harness, stream) === count).length, 1);
  assert(harness.logLines.some((line) => /warn .*cannot be merged/.test(line)));
  const tries = harness.port.merged.length;
  harness.run(60_000);
  assert.equal(counter(harness, 'bad_sources'), 1, 'not tried again for a while');
  assert(harness.port.merged.length <= tries + 3);
  // Ten minutes later it is tried again.
  harness.turn(600_000);
  appendSlowly(harness, count, count + 60, undefined, streams);
  assert(counter(harness, 'bad_sources') >= 2);
});

test('a stream with a row that the disk changed is left alone, others of the group are merged', () => {
  const harness = started();
  harness.create(0, 'a');
  harness.turn();
  const streams = ['s', 'a'];
  const failing = (op: string): 'ok' | 'error' => (op === 'merge' ? 'error' : 'ok');
  appendSlowly(harness, 0, 100, failing, streams);
  // Rows that no checkpoint has written yet are not the disk's.
  harness.run(3000, failing);
  harness.storage.isDamaged = (key) => key[2] === TAG.chunk && key[8] === 1;
  harness.run(30_000);
  harness.storage.isDamaged = () => false;
  assert(chunksOf(harness, 'a') < 50, `${chunksOf(harness, 'a')} chunks`);
  assert.equal(chunksOf(harness, 's'), 100);
  for (const stream of streams) assert.equal(harness.whole(stream).toString(), text(100));
});

test('a group that lost its leadership meanwhile does not publish, also not when it leads again', () => {
  const harness = started({ sweepGraceMs: 0 });
  const count = untilMerge(harness);
  harness.loseLeadership();
  harness.turn();
  harness.groupOf().raft.campaign();
  harness.turn();
  assert(harness.groupOf().leads);
  harness.port.answer('ok', 'merge');
  const { objects } = harness.groupOf().state.cold;
  for (let i = 0; i < 5; i++) harness.turn();
  assert.equal(harness.groupOf().state.cold.objects, objects);
  assert.equal(counter(harness, 'forgotten'), 1);
  assert.equal(chunksOf(harness), count);
  harness.run(25_000);
  assert.equal(harness.port.objects.size, harness.groupOf().state.cold.objects, 'the orphan was found');
  // The new leader notices with the next flushes.
  appendSlowly(harness, count, count + 60);
  assert(chunksOf(harness) < count + 20);
  assert.equal(harness.whole('s').toString(), text(count + 60));
});

test('a stream that was removed during the merge leaves an object for the GC', () => {
  const harness = started();
  untilMerge(harness);
  harness.remove(0, 's');
  harness.create(0, 's', { body: 'new' });
  harness.turn();
  harness.port.answer('ok', 'merge');
  harness.run(5000);
  assert.equal(counter(harness, 'stale'), 1);
  assert.equal(harness.whole('s').toString(), 'new');
  assert.equal(harness.port.objects.size, 1);
});

test('a merge under way is no orphan, however long it takes', () => {
  const harness = started({ sweepGraceMs: -1e9 });
  const count = untilMerge(harness);
  const asked = harness.port.open.find(({ task }) => task.op === 'merge');
  assert(asked !== undefined);
  harness.port.happen(asked);
  harness.run(30_000, holdMerges);
  assert.equal(harness.status().counters['cold_orphan_cleanup_attempts'], 0);
  assert.equal(chunksOf(harness), count);
  harness.port.answer('ok', 'merge');
  harness.run(1000);
  assert(chunksOf(harness) < count);
  assert.equal(harness.whole('s').toString(), text(count));
});

test('nothing is merged under pressure, and afterwards it is', () => {
  const harness = started({ hotBytesMax: 2000, flushBytes: 1e9 });
  const noUploads = (op: string): 'ok' | 'error' => (op === 'put' ? 'error' : 'ok');
  const count = untilMerge(harness, holdMerges);
  harness.port.answer('error', 'merge');
  const tries = harness.port.merged.length;
  harness.create(0, 't', { body: 'x'.repeat(1500) });
  harness.turn();
  harness.run(20_000, noUploads);
  assert.equal(harness.port.merged.length, tries);
  harness.run(20_000);
  assert(harness.port.merged.length > tries);
  assert.equal(harness.whole('s').toString(), text(count));
});

test('one merge per group at a time, two per shard', () => {
  const groups = [0, 1, 2];
  const harness = new ColdHarness(SLOW, groups);
  for (const group of groups) harness.create(group, `s${group}`);
  harness.turn();
  for (let i = 0; i < 100; i++)
    for (const group of groups) appendSlowly(harness, i, i + 1, holdMerges, [`s${group}`], group);
  assert.equal(harness.port.count('merge'), 2);
  assert.equal(new Set(harness.port.merged.map(({ key }) => key.slice(0, 5))).size, 2);
  harness.run(5000);
  for (const group of groups) {
    assert(chunksOf(harness, `s${group}`, group) < 50);
    assert.equal(harness.whole(`s${group}`, group).toString(), text(100));
  }
});
