/**
 * Recently read ranges, shared by all readers: bytes at an offset never change, so a read that was answered before
 * needs only the shard's word that the same bytes are still the answer, and no bytes cross the mailbox.
 *
 * The shard decides in its applied state, for each request (stream/operations/read.ts). Deletion,
 * expiry, retention and purges are therefore seen at once; incarnation and lineage tell a new
 * stream of the same name from the one whose bytes are here.
 *
 * Entries are found by a 32-bit hash and compared in full: a collision costs a miss. What is read only once is not
 * kept: an answer enters when the same one was seen before, so a scan of many streams neither copies nor evicts.
 */
import { LRUCache } from 'lru-cache';
import { int32At, ownCopy } from '../base/bytes.ts';
import { hash32 } from '../base/hash.ts';
import {
  type HeldRead,
  READ_FLAG_AWAIT,
  READ_FLAG_NO_TOUCH,
  type ReadQuestion,
  copyQuestion,
  holdRead,
  readIncarnation,
  readLineage,
} from '../protocol/queries/read.ts';
import { READ_OFFSET, READ_RECORD } from '../protocol/read-fields.ts';
import { REPLY_COLD, REPLY_HELD, REPLY_UP_TO_DATE, type Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';

/** Answers remembered by their fingerprint alone, a power of two: more than the cache usually has room for. 64 KiB. */
const SEEN_SLOTS = 16_384;
/** Flags of a read that its answer depends on. */
const SAME_ANSWER = ~(READ_FLAG_NO_TOUCH | READ_FLAG_AWAIT);
/** Overhead of an entry. */
const ENTRY_BYTES = 512;

export interface ReadCacheOptions {
  /** The bound of all entries together. */
  readonly bytesMax: number;
  /** Smaller answers cost the shard little more than its word would. */
  readonly answerBytesMin: number;
  /** A single record may be larger than any read; such answers would evict everything else. */
  readonly answerBytesMax: number;
}

/** One answer, with what the shard leaves out when it is held. */
interface Kept extends ReadQuestion, HeldRead {
  readonly body: Uint8Array;
  readonly startOffset: number;
  readonly recordStart: number;
  readonly recordNext: number;
}

/** The read that waits in a slot. */
class Lookup implements ReadQuestion {
  isOpen = false;
  key = 0;
  bucket = '';
  stream = '';
  mode = 0;
  value = 0;
  maxBytes = 0;
  maxRecords = 0;
  readFlags = 0;
  held: Kept | undefined = undefined;
}

export class ReadCache {
  readonly counters = { hits: 0, misses: 0, hitBytes: 0 };
  readonly #options: ReadCacheOptions;
  readonly #kept: LRUCache<number, Kept>;
  readonly #seen = new Int32Array(SEEN_SLOTS);
  /** By slot; they are used again with it. */
  readonly #lookups: (Lookup | undefined)[] = [];

  constructor(options: ReadCacheOptions) {
    this.#options = options;
    this.#kept = new LRUCache({ maxSize: options.bytesMax, sizeCalculation: bytesOf });
  }

  get bytes(): number {
    return this.#kept.calculatedSize;
  }

  /** A READ is about to go out in `slot`: tells the shard what is held. */
  ask(request: Request, slot: number): void {
    const lookup = (this.#lookups[slot] ??= new Lookup());
    copyQuestion(request, lookup);
    lookup.readFlags &= SAME_ANSWER;
    const { mode, maxBytes } = lookup;
    // Other positions move with the tail. Few bytes are never kept.
    lookup.isOpen =
      (mode === READ_OFFSET || mode === READ_RECORD) && (maxBytes === 0 || maxBytes >= this.#options.answerBytesMin);
    if (!lookup.isOpen) return holdRead(request, undefined);
    lookup.key = keyOf(lookup);
    const kept = this.#kept.get(lookup.key);
    lookup.held = kept !== undefined && isSame(kept, lookup) ? kept : undefined;
    holdRead(request, lookup.held);
  }

  /** The request of the slot was not sent. */
  forget(slot: number): void {
    const lookup = this.#lookups[slot];
    if (lookup !== undefined) this.#close(lookup);
  }

  /** The answer to the slot's request, of whatever operation; completes what the shard left out. */
  answered(slot: number, reply: Reply): void {
    const lookup = this.#lookups[slot];
    if (lookup === undefined || !lookup.isOpen) return;
    const { held, key } = lookup;
    if (held !== undefined && reply.has(REPLY_HELD)) {
      this.#serve(held, reply);
    } else {
      // Refused, replaced, or the stream has grown: it is not the answer any more.
      if (held !== undefined && this.#kept.peek(key) === held) this.#kept.delete(key);
      // Bytes in the cold store come later, through keep().
      if (!reply.has(REPLY_COLD)) this.#consider(key, lookup, reply);
    }
    this.#close(lookup);
  }

  /** An answer that did not come out of the mailbox as it is. */
  keep(question: ReadQuestion, reply: Reply): void {
    const { bucket, stream, mode, value, maxBytes, maxRecords } = question;
    if (mode !== READ_OFFSET && mode !== READ_RECORD) return;
    const readFlags = question.readFlags & SAME_ANSWER;
    const asked = { bucket, stream, mode, value, maxBytes, maxRecords, readFlags };
    this.#consider(keyOf(asked), asked, reply);
  }

  #serve(held: Kept, reply: Reply): void {
    this.counters.hits++;
    this.counters.hitBytes += held.body.length;
    reply.flags &= ~REPLY_HELD;
    reply.startOffset = held.startOffset;
    reply.recordStart = held.recordStart;
    reply.recordNext = held.recordNext;
    reply.body = held.body;
    reply.isBodyKept = true;
  }

  /** Keeps the answer if it was seen before. The reply then has the kept bytes, as what follows may keep them. */
  #consider(key: number, asked: ReadQuestion, reply: Reply): void {
    const { body } = reply;
    const { answerBytesMin, answerBytesMax } = this.#options;
    if (reply.code !== 0 || body === undefined || body.length < answerBytesMin || body.length > answerBytesMax) return;
    this.counters.misses++;
    const print = hash32(hash32(key, reply.nextOffset), readIncarnation(reply)) | 0;
    const slot = print & (SEEN_SLOTS - 1);
    if (int32At(this.#seen, slot) !== print) {
      this.#seen[slot] = print;
      return;
    }
    if (!reply.isBodyKept) reply.body = ownCopy(body);
    reply.isBodyKept = true;
    const { bucket, stream, mode, value, maxBytes, maxRecords, readFlags } = asked;
    this.#kept.set(key, {
      ...{ bucket, stream, mode, value, maxBytes, maxRecords, readFlags },
      body: reply.body ?? body,
      incarnation: readIncarnation(reply),
      lineage: readLineage(reply),
      startOffset: reply.startOffset,
      nextOffset: reply.nextOffset,
      recordStart: reply.recordStart,
      recordNext: reply.recordNext,
      reachedTail: reply.has(REPLY_UP_TO_DATE),
    });
  }

  #close(lookup: Lookup): void {
    lookup.isOpen = false;
    lookup.held = undefined;
    lookup.bucket = '';
    lookup.stream = '';
  }
}

function bytesOf({ body, bucket, stream }: Kept): number {
  return body.length + 2 * (bucket.length + stream.length) + ENTRY_BYTES;
}

function keyOf({ bucket, stream, mode, value, maxBytes, maxRecords, readFlags }: ReadQuestion): number {
  let key = hash32(hash32(mode, bucket), stream);
  key = hash32(key, value);
  return hash32(hash32(hash32(key, maxBytes), maxRecords), readFlags);
}

function isSame(a: ReadQuestion, b: ReadQuestion): boolean {
  return (
    a.value === b.value &&
    a.mode === b.mode &&
    a.maxBytes === b.maxBytes &&
    a.maxRecords === b.maxRecords &&
    a.readFlags === b.readFlags &&
    a.stream === b.stream &&
    a.bucket === b.bucket
  );
}
