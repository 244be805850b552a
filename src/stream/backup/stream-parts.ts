/**
 * What a backup holds of one stream, as its rows pass: chunks and rows that cover it from the start offset to the tail
 * without a gap, and a row for everything that its head says there is.
 */
import { uint32At } from '../../base/bytes.ts';
import { BODY_BYTES_MAX, PAGE_VALUE_BYTES } from '../../base/limits.ts';
import type { StoredChunk } from '../../protocol/cold.ts';
import type { Head } from '../core/head.ts';
import { ROW_PAYLOAD_BYTES_MAX, type DataRow } from '../core/row.ts';
import { decodeSnapshot } from '../core/snapshots.ts';
import { Fault, check, nameText } from './fault.ts';
import { isHeaderText } from './heads.ts';
import { KINDS, type RowKind } from './rows.ts';

/** A chunk is read completely. The largest has one message, with the ends of those before it in its row. */
const CHUNK_BYTES_MAX = 2 * BODY_BYTES_MAX;
const NONE = -1;
/** The ordinal at a published snapshot that begins inside a message. */
const NOWHERE = -2;

/** One per stream of the group: about 200 bytes, and nothing else of a backup stays in memory. */
export class StreamParts {
  readonly name: Uint8Array;
  readonly json: boolean;
  readonly provisional: boolean;
  readonly tail: number;
  readonly #recordNext: number;
  readonly #startOffset: number;
  readonly #recordFirst: number;
  readonly #hotStart: number;
  readonly #hotRecord: number;
  readonly #tailRowStart: number;
  readonly #snapshotOffset: number;
  /** Kinds of rows that the head announces, and those that came, as bits. */
  #said = 0;
  #seen = 0;
  /** Up to here the stream is covered, and how many messages or records end there. */
  #reached: number;
  #record: number;
  /** A message or record ends there. */
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
    this.#recordNext = head.recordNext;
    this.#startOffset = head.startOffset;
    this.#recordFirst = head.recordFirst;
    this.#hotStart = head.hotStart;
    this.#hotRecord = head.hotRecord;
    this.#tailRowStart = head.tailRowStart;
    this.#snapshotOffset = head.snapshotOffset;
    this.#reached = head.startOffset;
    this.#record = head.recordFirst;
    KINDS.forEach(({ says }, i) => (this.#said |= says?.(head) === true ? 1 << i : 0));
  }

  /** A row of this kind came. */
  see(kind: RowKind): void {
    if (kind.says === undefined) return;
    const bit = 1 << KINDS.indexOf(kind);
    check((this.#said & bit) !== 0, `a ${kind.thing} of stream ${nameText(this.name)} is denied by its head`);
    this.#seen |= bit;
  }

  /** The next chunk. */
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
    this.#check(end > this.#startOffset && end <= this.#hotStart, `${what} lies outside of what is cold`);
    // The first chunk may begin before the start offset.
    if (this.#reached === this.#startOffset && start < this.#startOffset) {
      const isFirst = firstRecord <= this.#recordFirst && this.#recordFirst <= recordNext;
      this.#check(isFirst, `${what} does not hold the first record`);
    } else this.#follow(what, start, firstRecord);
    this.#reach(end, recordNext, lastEnd === end);
  }

  /** The next row of bytes. */
  row({ start, end, firstRecord, ends, count, length }: DataRow): void {
    const what = `the row at ${start}`;
    this.#check(length > 0 && length <= ROW_PAYLOAD_BYTES_MAX, `${what} has an impossible size`);
    this.#check(start >= this.#hotStart && end <= this.tail, `${what} lies outside of what is in rows`);
    this.#follow(what, start, firstRecord);
    const rise = ends.every((to, i) => to > (i === 0 ? 0 : uint32At(ends, i - 1)) && to <= length);
    this.#check(rise, `${what} has messages that end where they cannot`);
    const at = this.#snapshotOffset - start;
    if (at >= 0 && at < length) {
      const before = at === 0 ? 0 : ends.indexOf(at) + 1;
      const isBorder = at === 0 ? this.#isBorder : before > 0;
      this.#snapshotRecord = isBorder ? firstRecord + before : NOWHERE;
    }
    this.#lastRow = start;
    this.#reach(end, firstRecord + count, ends.at(-1) === length);
  }

  /** The next part of the published snapshot; part 0 describes it. */
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
    this.#check(offset === this.#snapshotOffset, `${what} covers another offset than its head says`);
    this.#check(isHeaderText(contentType), `the content type of ${what} cannot be`);
    const isInside = record >= this.#recordFirst && record <= this.#recordNext && offset >= this.#startOffset;
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
    this.#check(this.#record === this.#recordNext, 'records in front of the tail are missing');
    this.#check(this.#isBorder, 'the last message has no end');
    const lastRow = this.#hotStart === this.tail ? NONE : this.#tailRowStart;
    this.#check(this.#lastRow === lastRow, 'the last row is not where the head says');
    const unseen = this.#said & ~this.#seen;
    for (const [i, { missing }] of KINDS.entries()) {
      if (missing !== undefined) this.#check((unseen & (1 << i)) === 0, missing);
    }
    this.#check(this.#snapshotLeft === 0, 'a part of its published snapshot is missing');
  }

  /** Chunks and rows follow each other, and the rows begin with a message. */
  #follow(what: string, start: number, firstRecord: number): void {
    this.#check(start === this.#reached, `${what} leaves a gap: bytes behind ${this.#reached} are missing`);
    this.#check(firstRecord === this.#record, `${what} does not follow the records before`);
  }

  #reach(end: number, record: number, isBorder: boolean): void {
    this.#reached = end;
    this.#record = record;
    this.#isBorder = isBorder;
    if (end !== this.#hotStart) return;
    this.#check(record === this.#hotRecord && isBorder, 'the rows do not begin where the chunks end');
  }

  /** Only a chunk itself knows the borders inside it. */
  #begins(offset: number, record: number): boolean {
    if (offset === this.tail) return record === this.#recordNext;
    if (offset === this.#startOffset) return record === this.#recordFirst;
    return offset >= this.#hotStart ? record === this.#snapshotRecord : record <= this.#hotRecord;
  }

  #check(holds: boolean, sentence: string): void {
    if (!holds) throw new Fault(`stream ${nameText(this.name)}: ${sentence}`);
  }
}
