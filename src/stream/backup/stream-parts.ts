/**
 * Checks a stream of a backup as its rows pass: its head, then chunks and rows that cover it from the start offset to
 * the tail without a gap, and a row for everything that its head says there is.
 */
import { uint32At } from '../../base/bytes.ts';
import { BODY_BYTES_MAX, PAGE_VALUE_BYTES, TOKEN_BYTES_MAX } from '../../base/limits.ts';
import type { StoredChunk } from '../../protocol/cold.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../protocol/header-values.ts';
import type { Head } from '../core/head.ts';
import { ROW_PAYLOAD_BYTES_MAX, type DataRow } from '../core/row.ts';
import { decodeSnapshot } from '../core/snapshots.ts';
import { Fault, check, nameText } from './fault.ts';
import { KINDS, type RowKind } from './rows.ts';

/** Keys have 48 bits for the incarnation of a stream, and new ones continue from the highest. */
const INCARNATION_MAX = 2 ** 47;
/** As accepted from clients (http/headers.ts), because they are sent again as headers. */
const NOT_VISIBLE_ASCII = /[^\x20-\x7e\t]/;

export const isHeaderText = (text: string): boolean => text.length <= TOKEN_BYTES_MAX && !NOT_VISIBLE_ASCII.test(text);
export const isIncarnation = (n: number): boolean => n > 0 && n <= INCARNATION_MAX;
/** A chunk is read completely. The largest has one message, with the ends of those before it in its row. */
const CHUNK_BYTES_MAX = 2 * BODY_BYTES_MAX;
const NONE = -1;
/** The ordinal at a published snapshot that begins inside a message. */
const NOWHERE = -2;

/** Checks what the fields of a head say together. */
export function checkHead(head: Head): void {
  const fault = lifetimeFault(head) ?? rangeFault(head);
  if (fault !== undefined) throw new Fault(`stream ${nameText(head.key)}: ${fault}`);
}

function lifetimeFault(head: Head): string | undefined {
  const { ttlSeconds, expiresAtMs, indexedDeadlineMs } = head;
  if (ttlSeconds > TTL_SECONDS_MAX) return 'its TTL cannot be';
  if (expiresAtMs > TIMESTAMP_MS_MAX) return 'its expiry cannot be';
  if (ttlSeconds >= 0 && expiresAtMs >= 0) return 'it has two lifetimes';
  // Listed while it has a lifetime, and never too late (stream/operations/create.ts).
  const listed = indexedDeadlineMs >= 0 && indexedDeadlineMs <= head.deadlineMs;
  const expires = head.deadlineMs !== Infinity;
  return (expires ? listed : indexedDeadlineMs === -1) ? undefined : 'it is listed for another deadline than it has';
}

function rangeFault(head: Head): string | undefined {
  const { tail, recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart } = head;
  if (!isIncarnation(head.incarnation)) return 'its incarnation cannot be';
  if (!isHeaderText(head.contentType)) return 'its content type cannot be';
  if (head.lastSeq !== undefined && !isHeaderText(head.lastSeq)) return 'its Stream-Seq cannot be';
  if (head.provisional && !head.forked) return 'it is a fork in the making of nothing';
  if (startOffset > tail) return `the floor ${startOffset} lies beyond the tail ${tail}`;
  if (head.snapshotOffset > tail) return `the snapshot at ${head.snapshotOffset} lies beyond the tail ${tail}`;
  if (startOffset > hotStart || hotStart > tail) return 'the frontier lies outside the stream';
  if (recordFirst > hotRecord || hotRecord > recordNext) return 'the record at the frontier lies outside the stream';
  if (head.hotSinceMs >= 0 !== hotStart < tail)
    return 'it is listed for flushing without need, or not although it must';
  if (startOffset === hotStart && recordFirst !== hotRecord) return 'record and offset of the floor differ';
  if (hotStart === tail && (hotRecord !== recordNext || tailRowStart !== tail))
    return 'the end of the stream is not at its tail';
  return undefined;
}

type Marks = Pick<
  Head,
  'recordNext' | 'startOffset' | 'recordFirst' | 'hotStart' | 'hotRecord' | 'tailRowStart' | 'snapshotOffset'
>;

/** One per stream of the group: about 200 bytes, and nothing else of a backup stays in memory. */
export class StreamParts {
  readonly name: Uint8Array;
  readonly json: boolean;
  readonly provisional: boolean;
  readonly tail: number;
  readonly #head: Marks;
  /** Kinds of rows that the head announces, and those that came, as bits. */
  #said = 0;
  #seen = 0;
  /** The offset up to which the stream is covered, and how many messages or records end there. */
  #reached: number;
  #record: number;
  /** True when a message or record ends at #reached. */
  #isBorder = true;
  #lastRow = NONE;
  /** Ordinal at the published snapshot, when that lies among the rows. */
  #snapshotRecord = NONE;
  #snapshotBytes = 0;
  #snapshotLeft = 0;

  constructor(head: Head) {
    this.name = head.key;
    this.json = head.json;
    this.provisional = head.provisional;
    this.tail = head.tail;
    const { recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart, snapshotOffset } = head;
    this.#head = { recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart, snapshotOffset };
    this.#reached = head.startOffset;
    this.#record = head.recordFirst;
    KINDS.forEach(({ says }, i) => (this.#said |= says?.(head) === true ? 1 << i : 0));
  }

  /** Notes that a row of this kind came. */
  see(kind: RowKind): void {
    if (kind.says === undefined) return;
    const bit = 1 << KINDS.indexOf(kind);
    check((this.#said & bit) !== 0, `a ${kind.thing} of stream ${nameText(this.name)} is denied by its head`);
    this.#seen |= bit;
  }

  /** Checks the next chunk. */
  chunk(at: number, chunk: StoredChunk): void {
    const { start, end, firstRecord, recordNext, lastEnd, length } = chunk;
    const what = `the chunk at ${at}`;
    this.#check(
      start === at && end > start && length > 0 && length <= CHUNK_BYTES_MAX,
      `${what} has impossible bounds`,
    );
    const isEmpty = recordNext === firstRecord && lastEnd === start;
    // Each record has at least one byte.
    const holdsSome = recordNext > firstRecord && lastEnd <= end && recordNext - firstRecord <= lastEnd - start;
    this.#check(isEmpty || holdsSome, `${what} has impossible records`);
    this.#check(end > this.#head.startOffset && end <= this.#head.hotStart, `${what} lies outside of what is cold`);
    // The first chunk may begin before the start offset.
    if (this.#reached === this.#head.startOffset && start < this.#head.startOffset) {
      const isFirst = firstRecord <= this.#head.recordFirst && this.#head.recordFirst <= recordNext;
      this.#check(isFirst, `${what} does not hold the first record`);
    } else this.#follow(what, start, firstRecord);
    this.#reach(end, recordNext, lastEnd === end);
  }

  /** Checks the next row of bytes. */
  row({ start, end, firstRecord, ends, count, length }: DataRow): void {
    const what = `the row at ${start}`;
    this.#check(length > 0 && length <= ROW_PAYLOAD_BYTES_MAX, `${what} has an impossible size`);
    this.#check(start >= this.#head.hotStart && end <= this.tail, `${what} lies outside of what is in rows`);
    this.#follow(what, start, firstRecord);
    const rise = ends.every((to, i) => to > (i === 0 ? 0 : uint32At(ends, i - 1)) && to <= length);
    this.#check(rise, `${what} has messages that end where they cannot`);
    const at = this.#head.snapshotOffset - start;
    if (at >= 0 && at < length) {
      const before = at === 0 ? 0 : ends.indexOf(at) + 1;
      const isBorder = at === 0 ? this.#isBorder : before > 0;
      this.#snapshotRecord = isBorder ? firstRecord + before : NOWHERE;
    }
    this.#lastRow = start;
    this.#reach(end, firstRecord + count, ends.at(-1) === length);
  }

  /** Checks the next part of the published snapshot; part 0 describes it. */
  snapshotPart(part: number, value: Uint8Array): void {
    const what = 'its published snapshot';
    if (part > 0) {
      this.#check(this.#snapshotBytes > 0, `${what} has no beginning`);
      const done = this.#snapshotBytes - this.#snapshotLeft;
      const isNext =
        done === (part - 1) * PAGE_VALUE_BYTES && value.length === Math.min(PAGE_VALUE_BYTES, this.#snapshotLeft);
      this.#check(isNext, `a part of ${what} is missing`);
      this.#snapshotLeft -= value.length;
      return;
    }
    const { offset, record, size, contentType } = decodeSnapshot(value);
    this.#check(offset === this.#head.snapshotOffset, `${what} covers another offset than its head says`);
    this.#check(isHeaderText(contentType), `the content type of ${what} cannot be`);
    const isInside =
      record >= this.#head.recordFirst && record <= this.#head.recordNext && offset >= this.#head.startOffset;
    this.#check(isInside, `${what} lies outside the stream`);
    this.#check(
      this.#begins(offset, record),
      `${what} covers a part of a message, or another record than begins there`,
    );
    this.#snapshotBytes = size;
    this.#snapshotLeft = size;
  }

  /** The stream has no more rows. */
  finish(): void {
    this.#check(this.#reached === this.tail, `bytes from ${this.#reached} to ${this.tail} are missing`);
    this.#check(this.#record === this.#head.recordNext, 'records in front of the tail are missing');
    this.#check(this.#isBorder, 'the last message has no end');
    const lastRow = this.#head.hotStart === this.tail ? NONE : this.#head.tailRowStart;
    this.#check(this.#lastRow === lastRow, 'the last row is not where the head says');
    const unseen = this.#said & ~this.#seen;
    for (const [i, { missing }] of KINDS.entries()) {
      if (missing !== undefined) this.#check((unseen & (1 << i)) === 0, missing);
    }
    this.#check(this.#snapshotLeft === 0, 'a part of its published snapshot is missing');
  }

  /** Checks that chunks and rows follow each other, and that rows begin with a message. */
  #follow(what: string, start: number, firstRecord: number): void {
    this.#check(start === this.#reached, `${what} leaves a gap: bytes behind ${this.#reached} are missing`);
    this.#check(firstRecord === this.#record, `${what} does not follow the records before`);
  }

  #reach(end: number, record: number, isBorder: boolean): void {
    this.#reached = end;
    this.#record = record;
    this.#isBorder = isBorder;
    if (end !== this.#head.hotStart) return;
    this.#check(record === this.#head.hotRecord && isBorder, 'the rows do not begin where the chunks end');
  }

  /** True when a message or record may begin there. Only a chunk itself knows the borders inside it. */
  #begins(offset: number, record: number): boolean {
    if (offset === this.tail) return record === this.#head.recordNext;
    if (offset === this.#head.startOffset) return record === this.#head.recordFirst;
    return offset >= this.#head.hotStart ? record === this.#snapshotRecord : record <= this.#head.hotRecord;
  }

  #check(holds: boolean, sentence: string): void {
    if (!holds) throw new Fault(`stream ${nameText(this.name)}: ${sentence}`);
  }
}
