// A cold store for the differential test: a map of objects, and a flusher, a compactor, a GC and a sweep for orphans
// that are late, repeat themselves and give up, as real leaders do.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { COLD_CHUNK_BYTES } from '../../../src/base/limits.ts';
import { eachChunk } from '../../../src/stream/cold/chunks.ts';
import { type CompactPlan, nextCompaction, sliceOf } from '../../../src/stream/cold/compaction-plan.ts';
import { type FlushLimits, nextFlush } from '../../../src/stream/cold/flush-plan.ts';
import { mergeChunks } from '../../../src/stream/cold/merge.ts';
import { gcDue, objectKnown, storedObject } from '../../../src/stream/cold/objects.ts';
import { Command, commandBytesMax, newCommandFields, writeCommand } from '../../../src/protocol/command.ts';
import {
  type ChunkRef,
  type ColdPlan,
  type FlushList,
  type ObjectId,
  type Orphan,
  type Slice,
  type StoredChunk,
  encodeOrphanList,
  encodeFlushList,
  encodeGcList,
} from '../../../src/protocol/cold.ts';
import { EntryBuilder } from '../../../src/group/entry.ts';
import { NO_ORIGIN, objectKey, parseObjectKey } from '../../../src/protocol/object-key.ts';
import type { State } from '../../../src/stream/core/state.ts';
import type { Random } from '../../support/random.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

/** A flush, or a compaction when its `kind` says so. */
export interface Flush {
  readonly kind?: typeof COMMANDS.flush.number | typeof COMMANDS.compact.number;
  readonly bucket: string;
  readonly list: FlushList;
}

export class ColdRun {
  readonly objects = new Map<string, Uint8Array>();
  readonly counts = {
    uploads: 0,
    bytes: 0,
    flushes: 0,
    compactions: 0,
    merged: 0,
    repeated: 0,
    altered: 0,
    lost: 0,
    orphans: 0,
    collected: 0,
    reads: 0,
  };
  readonly #random: Random;
  readonly #command = new Command();
  readonly #entry = new EntryBuilder();
  /** Uploaded and not yet proposed. */
  readonly #pending: Flush[] = [];
  /** Uploaded and never to be proposed. */
  readonly #orphans: Orphan[] = [];
  /** Proposed before; may come again. */
  readonly #proposed: Flush[] = [];
  #seq = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Something happens in the cold tier: an entry for the log, or nothing. */
  step(state: State, nowMs: number): Uint8Array | undefined {
    const random = this.#random;
    const dice = random.next();
    if (dice < 0.35) return this.#flush(state, nowMs);
    if (dice < 0.45) return this.#compact(state, nowMs);
    if (dice < 0.7) return this.#publish(nowMs);
    if (dice < 0.75) return this.#repeat(nowMs);
    if (dice < 0.9) return this.collect(state, nowMs, random.int(1, 20));
    return this.markOrphans(state, nowMs);
  }

  /** Uploads what is next, and publishes it at once or later. */
  #flush(state: State, nowMs: number): Uint8Array | undefined {
    const random = this.#random;
    const flush = this.upload(state, {
      hotBeforeMs: random.pick([Infinity, nowMs, nowMs - 50]),
      maxBytes: random.pick([1, 100, 3000, 4052, 9000, 100_000, 3_000_000]),
      maxSlices: random.pick([1, 3, 1024]),
      chunkBytes: random.pick([1, 1, 5000, 20_000, COLD_CHUNK_BYTES]),
    });
    if (flush === undefined) return undefined;
    return this.#use(flush, nowMs);
  }

  /** Publishes it at once, later, altered or never. */
  #use(flush: Flush, nowMs: number): Uint8Array | undefined {
    const random = this.#random;
    const { list } = flush;
    if (random.chance(0.1)) {
      this.#orphans.push({ object: list.object, key: list.key });
      this.counts.lost++;
      return undefined;
    }
    this.#pending.push({ ...flush, list: random.chance(0.1) ? this.#altered(list) : list });
    return random.chance(0.6) ? this.#publish(nowMs) : undefined;
  }

  /** Merges what should be merged, or any runs of streams that were flushed lately. */
  #compact(state: State, nowMs: number): Uint8Array | undefined {
    const random = this.#random;
    const flush = this.#proposed.length === 0 ? undefined : random.pick(this.#proposed.slice(-20));
    const streams = [...new Map((flush?.list.slices ?? []).map(({ incarnation, stream }) => [incarnation, stream]))];
    if (flush === undefined || streams.length === 0) return undefined;
    const keys = streams.map(([, stream]) => stream);
    const plan = random.chance(0.3)
      ? nextCompaction(state, keys, { maxBytes: 8 * 1024 * 1024, looks: 10_000, least: random.pick([2, 16]) }).plan
      : this.#anyRuns(state, flush.bucket, keys);
    return plan === undefined ? undefined : this.#use(this.merge(state, plan), nowMs);
  }

  #anyRuns(state: State, bucket: string, streams: readonly Uint8Array[]): CompactPlan | undefined {
    const random = this.#random;
    const slices = streams.flatMap((stream) => {
      const head = state.find(stream, 0, stream.length);
      if (head === undefined) return [];
      const chunks: StoredChunk[] = [];
      eachChunk(state, head.incarnation, 0, (chunk) => chunks.push(chunk) < 300);
      if (chunks.length === 0) return [];
      const from = random.chance(0.5) ? 0 : random.int(0, chunks.length - 1);
      const to = Math.min(chunks.length, from + random.pick([1, 2, 3, 10, 300]));
      const one = sliceOf(state, head, stream, chunks.slice(from, to));
      // The same run twice: the second one is refused.
      return random.chance(0.1) ? [one, one] : [one];
    });
    return slices.length === 0 ? undefined : { bucket, incarnation: 0, slices };
  }

  /** Puts merged chunks into the store. */
  merge(state: State, { bucket, incarnation, slices }: CompactPlan): Flush {
    const object: ObjectId = { run: '0123456789abcdef', seq: ++this.#seq };
    const key = objectKey(state.group, state.cold.origin, bucket, incarnation, object);
    const chunks = slices.map(({ incarnation: of, refs }) => {
      const merged = mergeChunks(of, refs, this.#fetch(refs));
      assert(merged !== undefined, 'chunks that follow each other can be merged');
      return merged;
    });
    const body = new Uint8Array(Buffer.concat(chunks));
    this.objects.set(key, body);
    this.counts.uploads++;
    let at = 0;
    const list = slices.map(({ refs, ...slice }, i): Slice => {
      const chunk = chunks[i] as Uint8Array;
      this.counts.merged += refs.length;
      at += chunk.length;
      return { ...slice, at: at - chunk.length, length: chunk.length, digest: digestOf(chunk) };
    });
    return { kind: COMMANDS.compact.number, bucket, list: { object, key, bytes: body.length, slices: list } };
  }

  /** Puts what is next into the store. */
  upload(state: State, limits: FlushLimits): Flush | undefined {
    const plan = nextFlush(state, limits);
    if (plan === undefined) return undefined;
    const object: ObjectId = { run: '0123456789abcdef', seq: ++this.#seq };
    const origin = state.cold.origin === NO_ORIGIN ? object.run : state.cold.origin;
    const key = objectKey(state.group, origin, plan.bucket, plan.incarnation, object);
    assert.deepEqual(parseObjectKey(key), { ...object, origin });
    this.objects.set(key, plan.body);
    this.counts.uploads++;
    this.counts.bytes += plan.bytes;
    const slices = plan.slices.map((slice): Slice => {
      return { ...slice, digest: digestOf(plan.body.subarray(slice.at, slice.at + slice.length)) };
    });
    return { bucket: plan.bucket, list: { object, key, bytes: plan.body.length, slices } };
  }

  /** The log entry that publishes it. */
  entry({ kind = COMMANDS.flush.number, bucket, list }: Flush, nowMs: number): Uint8Array {
    return this.propose(kind, bucket, encodeFlushList(list), nowMs);
  }

  #publish(nowMs: number): Uint8Array | undefined {
    if (this.#pending.length === 0) return undefined;
    const [flush] = this.#pending.splice(this.#random.int(0, this.#pending.length - 1), 1) as [Flush];
    this.#proposed.push(flush);
    this.counts[flush.kind === COMMANDS.compact.number ? 'compactions' : 'flushes']++;
    return this.entry(flush, nowMs);
  }

  #repeat(nowMs: number): Uint8Array | undefined {
    const recent = this.#proposed.slice(-20);
    if (recent.length === 0) return undefined;
    const flush = this.#random.pick(recent);
    // Deleted objects are published again only by an entry that comes back from the dead, which raft rules out.
    if (!this.objects.has(flush.list.key)) return undefined;
    this.counts.repeated++;
    return this.entry(flush, nowMs);
  }

  /** A list that must not be believed: its slices are refused where they lie. */
  #altered(list: FlushList): FlushList {
    const random = this.#random;
    const at = random.int(0, list.slices.length - 1);
    const change = random.pick<(slice: Slice) => Partial<Slice>>([
      (slice) => ({ incarnation: slice.incarnation + random.int(1, 3) }),
      (slice) => ({ incarnation: Math.max(0, slice.incarnation - 1) }),
      (slice) => ({ start: slice.start + 1 }),
      (slice) => ({ end: slice.end + 1, lastEnd: slice.end + 1 }),
      (slice) => ({ firstRecord: slice.firstRecord + 1 }),
      (slice) => ({ recordNext: slice.recordNext + 1 }),
      (slice) => ({ end: slice.end - 1, lastEnd: slice.end - 1 }),
      (slice) => ({ lastEnd: slice.end + 1 }),
      () => ({ stream: new Uint8Array(Buffer.from('bucket\0nobody')) }),
    ]);
    this.counts.altered++;
    const wrong = list.slices[at] as Slice;
    return { ...list, slices: list.slices.map((slice, i) => (i === at ? { ...wrong, ...change(wrong) } : slice)) };
  }

  /** Deletes what is queued, and says so, or forgets to. */
  collect(state: State, nowMs: number, most: number, sure = false): Uint8Array | undefined {
    const before = (): number => nowMs - (sure ? -1 : this.#random.pick([-1, 0, 100]));
    const due = gcDue(state, { nowMs, usualMs: before(), mergedMs: before() }, most);
    if (due.length === 0) return undefined;
    for (const { object, key, seq } of due) {
      const stored = storedObject(state, object);
      assert(stored?.refs === 0 && stored.gcSeq === seq, 'only what nothing refers to is deleted');
      this.objects.delete(key);
    }
    this.counts.collected += due.length;
    if (!sure && this.#random.chance(0.2)) return undefined;
    const seqs = due.map(({ seq }) => seq);
    // Numbers that are not in the queue are passed over.
    return this.propose(COMMANDS.gcDone.number, 'bucket', encodeGcList([...seqs, ...seqs.slice(0, 1), 1e12]), nowMs);
  }

  /** Orphans, and objects that are none. */
  markOrphans(state: State, nowMs: number): Uint8Array | undefined {
    const orphans = this.#orphans.splice(0, this.#random.int(1, 5));
    for (const { object } of orphans) assert(!objectKnown(state, object));
    const others = this.#proposed.slice(-3).filter(({ list }) => objectKnown(state, list.object));
    const all = [...orphans, ...others.map(({ list }) => ({ object: list.object, key: list.key }))];
    if (all.length === 0) return undefined;
    this.counts.orphans += orphans.length;
    return this.propose(COMMANDS.markOrphan.number, 'bucket', encodeOrphanList(all), nowMs);
  }

  /** Everything that is still under way is published; orphans are marked. */
  *finish(state: State, nowMs: number): Generator<Uint8Array> {
    while (this.#pending.length > 0) yield this.#publish(nowMs) as Uint8Array;
    while (this.#orphans.length > 0) yield this.markOrphans(state, nowMs) as Uint8Array;
  }

  /** Nothing hot is left. */
  *flushAll(state: State, nowMs: number): Generator<Uint8Array> {
    for (;;) {
      yield* this.finish(state, nowMs);
      const plan = nextFlush(state, { hotBeforeMs: Infinity, maxBytes: 8 * 1024 * 1024 });
      if (plan === undefined) return;
      const data = this.#flush(state, nowMs);
      if (data !== undefined) yield data;
    }
  }

  /** The chunks of a plan, as the reader gets them. */
  chunks(plan: ColdPlan): Uint8Array[] {
    this.counts.reads++;
    return this.#fetch(plan.refs);
  }

  #fetch(refs: readonly ChunkRef[]): Uint8Array[] {
    return refs.map((ref) => {
      const object = this.objects.get(ref.key);
      assert(object !== undefined, `the object ${ref.key} of a chunk is in the store`);
      const chunk = object.slice(ref.at, ref.at + ref.length);
      assert(Buffer.compare(digestOf(chunk), ref.digest) === 0, 'the chunk is what was uploaded');
      return chunk;
    });
  }

  /** An entry with one command. */
  propose(kind: number, bucket: string, payload: Uint8Array, nowMs: number, stream = ''): Uint8Array {
    const fields = newCommandFields();
    fields.kind = kind;
    fields.bucket = bucket;
    fields.stream = stream;
    fields.payload = payload;
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    this.#command.read(bytes, view, 0);
    this.#entry.add(this.#command, nowMs);
    return this.#entry.finish();
  }
}

/** 32 bytes that tell chunks apart; the state machine does not ask which hash they are. */
function digestOf(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(bytes).digest());
}
