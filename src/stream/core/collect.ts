/**
 * Collects the body of a read in one buffer, row by row, from any source: memory and the store (hot-rows.ts), or chunks
 * of the cold store (cold/assemble.ts). The buffer is reused, so a body is valid until the next read.
 *
 * JSON streams answer with the array form. A stored line ends in \n, so the array is `[`, the lines with `,` in place
 * of \n, and `]` in place of the last \n.
 */
import { PARTS_MAX, READ_BYTES_MAX } from '../../base/limits.ts';
import { writeText } from '../../base/text.ts';
import { READ_FLAG_ENVELOPE, READ_FLAG_PARTS } from '../../protocol/queries/read.ts';
import { RowView } from './row-view.ts';

const NO_BODY = new Uint8Array(0);
const OPEN = 0x5b;
const CLOSE = 0x5d;
const BRACE = 0x7d;
const COMMA = 0x2c;
const NEWLINE = 0x0a;

/** Large enough for a typical answer. A buffer that grew for a huge record is released. */
const BUFFER_BYTES = READ_BYTES_MAX + 64 * 1024;

/** Contiguous rows of one stream. */
export interface RowSource {
  /** Offset after the last available byte. */
  readonly end: number;
  /** Points `view` at the row that holds `offset`, below the end. `start`, if not negative, is where it begins. */
  viewAt(view: RowView, offset: number, start: number): void;
}

/** The answer of a read. */
export interface ReadPlan {
  startOffset: number;
  nextOffset: number;
  recordStart: number;
  recordNext: number;
  readonly json: boolean;
  readonly envelope: boolean;
  /** READ_FLAG_PARTS. */
  readonly parts: boolean;
  /** Raw bytes, the JSON array, or parts. Valid until the next read. */
  body: Uint8Array;
}

export function newPlan(json: boolean, flags: number, startOffset: number, record: number): ReadPlan {
  return {
    startOffset,
    nextOffset: startOffset,
    recordStart: record,
    recordNext: record,
    json,
    envelope: (flags & READ_FLAG_ENVELOPE) !== 0,
    parts: (flags & READ_FLAG_PARTS) !== 0,
    body: NO_BODY,
  };
}

/** Buffers that all states of a thread share, because they work one after the other. */
export class WorkMemory {
  readonly collector = new ReadCollector();
  /** The buffer of the last writer of chunks, for the next one. */
  chunks: Uint8Array | undefined = undefined;
}

export class ReadCollector {
  /** The bytes of the answer; allocated by the first read. */
  #buffer = NO_BODY;
  readonly #view = new RowView();

  /**
   * Collects the body from plan.startOffset: up to `budget` bytes, with those of envelopes, and `records` records, but
   * at least one record.
   */
  collect(source: RowSource, plan: ReadPlan, budget: number, records: number): void {
    plan.nextOffset = plan.startOffset;
    if (!plan.json && !plan.parts) {
      plan.body = this.#bytes(source, plan, budget);
      return;
    }
    this.#start(2);
    const ends: number[] | undefined = plan.parts ? [] : undefined;
    const most = plan.parts ? Math.min(records, PARTS_MAX) : records;
    const size = plan.startOffset < source.end ? this.#whole(source, plan, budget, most, ends) : 0;
    if (ends !== undefined) {
      plan.body = partsBody(ends, this.#buffer.subarray(1, 1 + size));
    } else if (plan.envelope) {
      plan.body = envelopeBody(this.#buffer.subarray(1, 1 + size), plan);
    } else {
      this.#buffer[0] = OPEN;
      this.#buffer[Math.max(1, size)] = CLOSE;
      plan.body = this.#buffer.subarray(0, Math.max(2, size + 1));
    }
  }

  #bytes(source: RowSource, plan: ReadPlan, budget: number): Uint8Array {
    const size = Math.min(source.end - plan.startOffset, budget);
    this.#start(size);
    const view = this.#view;
    let position = plan.startOffset;
    let start = -1;
    for (let done = 0; done < size;) {
      source.viewAt(view, position, start);
      const from = position - view.start;
      const part = Math.min(view.length - from, size - done);
      view.copy(from, from + part, this.#buffer, done);
      done += part;
      position += part;
      // Rows are contiguous.
      start = position;
    }
    plan.nextOffset = position;
    return this.#buffer.subarray(0, size);
  }

  /**
   * Collects complete lines or messages after the first byte of the buffer and returns their size.
   * Lines of the array form end in `,`. Pieces of a record that spans rows are collected too, and
   * count once its end is found. `ends` receives all the ends.
   */
  #whole(source: RowSource, plan: ReadPlan, budget: number, records: number, ends: number[] | undefined): number {
    this.#start(Math.min(source.end - plan.startOffset, budget) + 2);
    const view = this.#view;
    source.viewAt(view, plan.startOffset, -1);
    plan.recordStart = view.firstRecord + view.endsUpTo(plan.startOffset - view.start);
    const separated = !plan.envelope && ends === undefined;
    let record = plan.recordStart;
    let position = plan.startOffset;
    let gathered = 0;
    let envelopes = 0;
    let whole = 0;
    for (;;) {
      const from = position - view.start;
      this.#reserve(1 + gathered, view.length - from + 1);
      view.copy(from, view.length, this.#buffer, 1 + gathered);
      let full = false;
      for (let i = record - view.firstRecord; i < view.count; i++) {
        const size = gathered + view.end(i) - from;
        if (plan.envelope) envelopes += envelopeBytes(record);
        full = record - plan.recordStart >= records || (size + envelopes > budget && record > plan.recordStart);
        if (full) break;
        if (separated) this.#buffer[size] = COMMA;
        else ends?.push(size);
        whole = size;
        record++;
      }
      gathered += view.length - from;
      position = view.stop;
      if (full || position >= source.end || record - plan.recordStart >= records) break;
      // A long record after the first one, with no end within the budget.
      if (gathered > budget && record > plan.recordStart) break;
      source.viewAt(view, position, position);
    }
    plan.recordNext = record;
    plan.nextOffset = plan.startOffset + whole;
    return whole;
  }

  #start(size: number): void {
    const { length } = this.#buffer;
    const isTooLarge = length > 4 * BUFFER_BYTES && size <= BUFFER_BYTES;
    if (isTooLarge || length < BUFFER_BYTES) this.#buffer = new Uint8Array(BUFFER_BYTES);
    this.#reserve(0, size);
  }

  #reserve(used: number, extra: number): void {
    if (used + extra <= this.#buffer.length) return;
    const grown = new Uint8Array(Math.max(used + extra, 2 * this.#buffer.length));
    grown.set(this.#buffer.subarray(0, used));
    this.#buffer = grown;
  }
}

const FRONT = '{"record":';
const MIDDLE = ',"value":';

/** An envelope's bytes beside its line: its `}` too, and the digits of the record. */
function envelopeBytes(record: number): number {
  return FRONT.length + String(record).length + MIDDLE.length + 1;
}

/** Renders the lines of the buffer as `[{"record":n,"value":...},...]`. */
function envelopeBody(lines: Uint8Array, { recordStart, recordNext }: ReadPlan): Uint8Array {
  // At most: no record has more digits than the one behind them.
  const body = new Uint8Array(lines.length + (recordNext - recordStart) * envelopeBytes(recordNext) + 2);
  let at = 0;
  body[at++] = OPEN;
  for (let record = recordStart, start = 0; record < recordNext; record++) {
    const end = lines.indexOf(NEWLINE, start);
    if (record > recordStart) body[at++] = COMMA;
    at += writeText(body, at, `${FRONT}${record}${MIDDLE}`);
    body.set(lines.subarray(start, end), at);
    at += end - start;
    body[at++] = BRACE;
    start = end + 1;
  }
  body[at++] = CLOSE;
  return body.subarray(0, at);
}

/** count u32 | ends u32 | bytes. */
function partsBody(ends: readonly number[], bytes: Uint8Array): Uint8Array {
  const body = new Uint8Array(4 + 4 * ends.length + bytes.length);
  const target = new DataView(body.buffer);
  target.setUint32(0, ends.length, true);
  ends.forEach((end, i) => target.setUint32(4 + 4 * i, end, true));
  body.set(bytes, 4 + 4 * ends.length);
  return body;
}
