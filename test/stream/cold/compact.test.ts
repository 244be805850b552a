// Compaction: which chunks are merged, what it costs over time, and what happens to a merge whose stream changed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COLD_CHUNK_BYTES, COMPACT_RUN_MAX, COMPACT_RUN_MIN } from '../../../src/base/limits.ts';
import { eachChunk } from '../../../src/stream/cold/chunks.ts';
import { type CompactPlan, RunChooser, nextCompaction, sliceOf } from '../../../src/stream/cold/compaction-plan.ts';
import { mergeChunks } from '../../../src/stream/cold/merge.ts';
import { raiseStartOffset } from '../../../src/stream/cold/hot.ts';
import { decodeChunk } from '../../../src/stream/cold/chunk-layout.ts';
import { type FlushList, type StoredChunk, encodeFlushList } from '../../../src/protocol/cold.ts';
import { READ_RECORD } from '../../../src/protocol/read-fields.ts';
import { createRandom } from '../../support/random.ts';
import { NOW, Rig } from './rig.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

const LIMITS = { maxBytes: 8 * 1024 * 1024, looks: 10_000, least: COMPACT_RUN_MIN };

/** A stream as its chunks' weights; what it was merged to, and what that cost. */
function grow(sizes: readonly number[]): { chunks: number[]; written: number; most: number } {
  const chunks: number[] = [];
  let written = 0;
  let most = 0;
  for (const size of sizes) {
    chunks.push(size);
    for (;;) {
      const chooser = new RunChooser(COMPACT_RUN_MIN);
      for (let i = chunks.length - 1; i >= 0 && chooser.add(chunks[i] as number);) i--;
      if (chooser.best === 0) break;
      assert(chooser.best > 1);
      const merged = chunks.splice(-chooser.best).reduce((sum, one) => sum + one, 0);
      assert(merged <= COLD_CHUNK_BYTES);
      written += merged;
      chunks.push(merged);
    }
    most = Math.max(most, chunks.length);
  }
  return { chunks, written, most };
}

test('a stream of tiny chunks ends in few, and its bytes are written again five times at most on average', () => {
  for (const size of [1, 15, 16, 40, 100, 1000, 5000]) {
    const count = Math.min(100_000, Math.ceil((5 * COLD_CHUNK_BYTES) / size));
    const { chunks, written, most } = grow(Array.from({ length: count }, () => size));
    const bytes = size * count;
    assert(written <= 5 * bytes, `${size}: ${written / bytes} times`);
    // Full ones are half a MiB at least, and of each tier there are fifteen.
    assert(chunks.length <= bytes / (COLD_CHUNK_BYTES / 2) + 5 * 16, `${size}: ${chunks.length} chunks`);
    assert(most <= bytes / (COLD_CHUNK_BYTES / 2) + 5 * 16, `${size}: up to ${most} chunks`);
  }
});

test('chunks of all sizes in any order: a MiB never has more chunks than one run', () => {
  const random = createRandom(1);
  for (let round = 0; round < 20; round++) {
    const sizes = Array.from({ length: 20_000 }, () => Math.ceil(16 ** (random.next() * random.pick([1, 2, 3, 4]))));
    const bytes = sizes.reduce((sum, one) => sum + one, 0);
    const { chunks, written } = grow(sizes);
    assert(written <= 6 * bytes, `${written / bytes} times`);
    assert(chunks.length <= (bytes / (COLD_CHUNK_BYTES / 2) + 1) * COMPACT_RUN_MAX, `${chunks.length} chunks`);
  }
});

test('large chunks stay as they are, and one chunk is never merged alone', () => {
  const longest = (...newestFirst: number[]): number => {
    const chooser = new RunChooser(COMPACT_RUN_MIN);
    for (const weight of newestFirst) if (!chooser.add(weight)) break;
    return chooser.best;
  };
  const times = (count: number, weight: number): number[] => Array.from({ length: count }, () => weight);
  assert.equal(longest(), 0);
  assert.equal(longest(2 * COLD_CHUNK_BYTES), 0);
  assert.equal(longest(...times(3, 340_000)), 0, 'three would fill one, but they are large');
  assert.equal(longest(...times(8, 100_000)), 8);
  assert.equal(longest(...times(15, 20)), 0);
  assert.equal(longest(...times(16, 20)), 16);
  assert.equal(longest(...times(15, 1), 4000), 0, 'a larger one would be written again for little');
  assert.equal(longest(...times(15, 16), 4000), 16, 'unless it rises with them');
  assert.equal(longest(...times(300, 1)), COMPACT_RUN_MAX);
});

const TEXT = 'text/plain';
const JSONS = 'application/json';

function keyOf(stream: string): Uint8Array {
  return new Uint8Array(Buffer.from(`bucket\0${stream}`));
}

function chunksOf(rig: Rig, stream: string): StoredChunk[] {
  const chunks: StoredChunk[] = [];
  eachChunk(rig.state, rig.head(stream).incarnation, 0, (chunk) => chunks.push(chunk) > 0);
  return chunks;
}

/** Appends one message at a time, each flushed for itself. */
function appendSlowly(rig: Rig, stream: string, type: string, count: number, textOf: (i: number) => string): void {
  for (let i = 0; i < count; i++) {
    rig.append(stream, type, textOf(i));
    assert.equal(rig.flush(), 1);
  }
}

function planned(rig: Rig, ...streams: string[]): CompactPlan {
  const { plan } = nextCompaction(rig.state, streams.map(keyOf), LIMITS);
  assert(plan !== undefined, 'something is to be merged');
  return plan;
}

/** Slices that were accepted; the object is known from then on. */
function publish(rig: Rig, list: FlushList): void {
  assert.equal(rig.commit(rig.cold.propose(COMMANDS.compact.number, 'bucket', encodeFlushList(list), NOW)), 'OK');
}

test('chunks of slow streams become one each, in one object; reads are the same, the old objects go', () => {
  const rig = new Rig();
  rig.create('t', TEXT);
  rig.create('j', JSONS);
  appendSlowly(rig, 't', TEXT, 20, (i) => `message ${i};`);
  appendSlowly(rig, 'j', JSONS, 18, (i) => `{"n":${i}}`);
  const before = ['t', 'j'].map((stream) => rig.read(stream, 0).body.toString());
  const plan = planned(rig, 't', 'j');
  assert.deepEqual([plan.bucket, plan.incarnation], ['bucket', 0]);
  const { list } = rig.cold.merge(rig.state, plan);
  publish(rig, list);
  assert.equal(rig.state.cold.gcLength, 38);
  assert.equal(rig.state.cold.objects, 39);
  for (const [i, stream] of ['t', 'j'].entries()) {
    const [chunk, ...others] = chunksOf(rig, stream);
    assert.equal(others.length, 0);
    assert.deepEqual(chunk?.object, list.object);
    assert.equal(rig.read(stream, 0).body.toString(), before[i]);
    const bytes = rig.cold.objects.get(list.key)?.slice(chunk.at, chunk.at + chunk.length);
    assert.equal(decodeChunk(bytes ?? new Uint8Array(0))?.rows.length, 1, 'messages share rows again');
  }
  assert.equal(rig.read('j', 7, { mode: READ_RECORD, maxRecords: 1 }).body.toString(), '[{"n":7}]');
  rig.collectAll();
  assert.equal(rig.cold.objects.size, 1);
  assert.equal(nextCompaction(rig.state, [keyOf('t'), keyOf('j')], LIMITS).plan, undefined);
  // It continues from there, and everything is removed with its stream.
  appendSlowly(rig, 't', TEXT, 16, () => 'more;');
  publish(rig, rig.cold.merge(rig.state, planned(rig, 't')).list);
  assert.equal(rig.read('t', 0).body.toString(), `${before[0]}${'more;'.repeat(16)}`);
  rig.check();
  for (const stream of ['t', 'j']) assert.equal(rig.run(stream, { kind: 'delete' }), 'OK');
  rig.collectAll();
  assert.equal(rig.cold.objects.size, 0);
});

test('a repeated command changes nothing; one whose chunks are others by now leaves its object to the GC', () => {
  const rig = new Rig();
  rig.create('t', TEXT);
  appendSlowly(rig, 't', TEXT, 16, (i) => `message ${i};`);
  const first = rig.cold.merge(rig.state, planned(rig, 't')).list;
  const second = rig.cold.merge(rig.state, planned(rig, 't')).list;
  publish(rig, first);
  publish(rig, first);
  assert.deepEqual([rig.state.cold.gcLength, chunksOf(rig, 't').length], [16, 1]);
  publish(rig, second);
  assert.deepEqual(chunksOf(rig, 't')[0]?.object, first.object);
  assert.equal(rig.state.cold.gcLength, 17, 'the other leader was faster');
  rig.collectAll();
  assert.deepEqual([...rig.cold.objects.keys()], [first.key]);
  rig.check();
});

test('slices that are not exactly a run of chunks above the floor are refused, each for itself', () => {
  const rig = new Rig();
  for (const stream of ['a', 'b']) {
    rig.create(stream, TEXT);
    appendSlowly(rig, stream, TEXT, 20, (i) => `message ${i + 10};`);
  }
  const of = (stream: string, from: number, to: number): CompactPlan['slices'][number] =>
    sliceOf(rig.state, rig.head(stream), keyOf(stream), chunksOf(rig, stream).slice(from, to));
  const good = of('b', 4, 12);
  const changes: Partial<typeof good>[] = [
    { incarnation: 77 },
    { stream: keyOf('a') },
    { start: 1 },
    { end: good.end - 1 },
    { end: good.end + 1 },
    { firstRecord: 1 },
    { recordNext: good.recordNext + 1 },
    { lastEnd: good.end - 1 },
  ];
  for (const change of changes) {
    const { list } = rig.cold.merge(rig.state, { bucket: 'bucket', incarnation: 0, slices: [good] });
    publish(rig, { ...list, slices: list.slices.map((slice) => ({ ...slice, ...change })) });
    assert.equal(chunksOf(rig, 'b').length, 20, JSON.stringify(change));
  }
  assert.equal(rig.state.cold.gcLength, changes.length);
  // Merged while the stream was removed, while its floor rose over the beginning, and one that is fine, twice and
  // longer.
  rig.create('c', TEXT);
  appendSlowly(rig, 'c', TEXT, 3, () => 'gone');
  const slices = [of('a', 0, 4), good, good, of('b', 4, 13), of('c', 0, 3), of('a', 9, 10), of('a', 10, 20)];
  const { list } = rig.cold.merge(rig.state, { bucket: 'bucket', incarnation: 0, slices });
  assert.equal(rig.run('c', { kind: 'delete' }), 'OK');
  const floor = chunksOf(rig, 'a')[1] as StoredChunk;
  // The next sweep releases what is below.
  rig.state.releaseLeft = 0;
  raiseStartOffset(rig.state, rig.head('a'), floor.end, floor.recordNext, NOW);
  publish(rig, list);
  assert.deepEqual(
    ['a', 'b'].map((stream) => chunksOf(rig, stream).length),
    [20 - 9, 20 - 7],
  );
  rig.expire();
  rig.check();
  rig.collectAll();
  const text = Array.from({ length: 20 }, (_, i) => `message ${i + 10};`);
  assert.equal(rig.read('b', 0).body.toString(), text.join(''));
  assert.equal(rig.read('a', floor.end).body.toString(), text.slice(2).join(''));
});

test('chunks that differ from their references are not merged', () => {
  const rig = new Rig();
  rig.create('t', TEXT);
  appendSlowly(rig, 't', TEXT, 16, (i) => `message ${i + 10};`);
  const [{ incarnation, refs }] = planned(rig, 't').slices as [CompactPlan['slices'][number]];
  const bytes = refs.map(({ key, at, length }) => {
    return (rig.cold.objects.get(key) as Uint8Array).slice(at, at + length);
  });
  assert(mergeChunks(incarnation, refs, bytes) !== undefined);
  assert.equal(mergeChunks(incarnation + 1, refs, bytes), undefined);
  assert.equal(mergeChunks(incarnation, refs.slice(1), bytes), undefined);
  assert.equal(mergeChunks(incarnation, refs, bytes.slice(0, 15)), undefined);
  assert.equal(
    mergeChunks(incarnation, [...refs.slice(0, 3), ...refs.slice(4)], [...bytes.slice(0, 3), ...bytes.slice(4)]),
    undefined,
  );
  for (let at = 0; at < 56; at++) {
    const altered = bytes.map((one) => one.slice());
    const chunk = altered[3] as Uint8Array;
    chunk[at] = (chunk[at] as number) ^ 0x41;
    const merged = mergeChunks(incarnation, refs, altered);
    // Four bytes of the head mean nothing yet.
    if (merged !== undefined) assert(at >= 52, `byte ${at}`);
  }
});
