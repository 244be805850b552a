/**
 * Reads of applied state. A read is planned first (which rows, how many bytes), then filled into memory that the caller
 * reserves, so that bytes go from the store into the reply without a stop in between.
 *
 * JSON streams answer with the array form. A line of the stored form ends in \n, so for T > 0 stored bytes the array has
 * exactly T + 1 bytes: `[`, the lines with `,` for \n, and `]` for the last one.
 */
import type { ErrorCode } from '../base/errors.ts';
import { READ_BYTES_MAX } from '../base/limits.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../wire/reply.ts';
import {
  READ_FLAG_ENVELOPE,
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  type Query,
} from '../wire/request.ts';
import { refuse } from './append.ts';
import type { Head } from './head.ts';
import type { Row } from './row.ts';
import type { State } from './state.ts';

const OPEN = 0x5b;
const CLOSE = 0x5d;
const COMMA = 0x2c;

interface Slice {
  readonly row: Row;
  /** Range within the row. */
  readonly from: number;
  readonly to: number;
}

/** What a planned read returns. */
export class Plan {
  startOffset = 0;
  nextOffset = 0;
  recordStart = 0;
  recordNext = 0;
  json = false;
  envelope = false;
  slices: Slice[] = [];

  /** Size of the body in bytes. */
  get bodyBytes(): number {
    const stored = this.nextOffset - this.startOffset;
    if (!this.json) return stored;
    return stored === 0 ? 2 : stored + 1;
  }

  /** Writes the body at `at`; exactly bodyBytes. Not for the envelope view. */
  fill(target: Uint8Array, at: number): void {
    let out = at;
    if (this.json) target[out++] = OPEN;
    for (const { row, from, to } of this.slices) {
      target.set(row.bytes.subarray(from, to), out);
      if (this.json) {
        for (let i = 0; i < row.count; i++) {
          const end = row.ends[i] as number;
          if (end > from && end <= to) target[out + end - from - 1] = COMMA;
        }
      }
      out += to - from;
    }
    if (!this.json) return;
    if (this.slices.length === 0) target[out] = CLOSE;
    else target[out - 1] = CLOSE;
  }

  /** The body as `[{"record":n,"value":...},...]` (wire-facts 2.12, in the array form of decisions.md). */
  envelopeBody(): Uint8Array {
    const stored = new Uint8Array(this.nextOffset - this.startOffset);
    let out = 0;
    for (const { row, from, to } of this.slices) {
      stored.set(row.bytes.subarray(from, to), out);
      out += to - from;
    }
    const parts: Uint8Array[] = [];
    let start = 0;
    let record = this.recordStart;
    for (let end = stored.indexOf(0x0a); end >= 0; end = stored.indexOf(0x0a, start)) {
      const front = `${parts.length === 0 ? '[' : ','}{"record":${record++},"value":`;
      parts.push(encodeUtf8(front), stored.subarray(start, end), encodeUtf8('}'));
      start = end + 1;
    }
    parts.push(encodeUtf8(parts.length === 0 ? '[]' : ']'));
    return concat(parts);
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Plans a READ of a live stream. On refusal the reply has the code and undefined is returned; otherwise the reply has
 * everything but the body.
 */
export function planRead(state: State, head: Head, query: Query, reply: Reply): Plan | undefined {
  const plan = new Plan();
  plan.json = head.json;
  plan.envelope = (query.flags & READ_FLAG_ENVELOPE) !== 0;
  const code = resolveStart(state, head, query, plan);
  if (code !== 'OK') {
    refuse(reply, code, head);
    if (code === 'STREAM_GONE') reply.nextOffset = head.floor;
    return undefined;
  }
  const budget = query.maxBytes > 0 ? Math.min(query.maxBytes, READ_BYTES_MAX) : READ_BYTES_MAX;
  const records = query.maxRecords > 0 ? query.maxRecords : Infinity;
  if (query.mode !== READ_NOW && plan.startOffset < head.tail) collect(state, head, plan, budget, records);
  else plan.nextOffset = plan.startOffset;
  describeRead(head, plan, reply);
  return plan;
}

/**
 * Plans what a tail event carries: everything from `from` to the tail. Undefined when that is more than `budget` bytes;
 * the reply then describes the move without a body.
 */
export function planTail(state: State, head: Head, from: number, budget: number, reply: Reply): Plan | undefined {
  const plan = new Plan();
  plan.json = head.json;
  plan.startOffset = from;
  plan.nextOffset = from;
  plan.recordStart = head.recordNext;
  plan.recordNext = head.recordNext;
  const whole = head.tail - from <= budget;
  if (whole && from < head.tail) collect(state, head, plan, Infinity, Infinity);
  else plan.nextOffset = head.tail;
  describeRead(head, plan, reply);
  return whole ? plan : undefined;
}

function resolveStart(state: State, head: Head, query: Query, plan: Plan): ErrorCode {
  plan.recordStart = head.recordNext;
  plan.recordNext = head.recordNext;
  if (query.mode === READ_NOW) {
    plan.startOffset = head.tail;
    return 'OK';
  }
  if (query.mode === READ_OFFSET) {
    if (query.value > head.tail) return 'OFFSET_OUT_OF_RANGE';
    if (query.value < head.floor) return 'STREAM_GONE';
    if (head.json && !onRecordBorder(state, head, query.value)) return 'OFFSET_INSIDE_RECORD';
    plan.startOffset = query.value;
    return 'OK';
  }
  if (!head.json) return 'RECORDS_UNAVAILABLE';
  const record = startRecord(head, query);
  if (record < head.recordFirst) return 'STREAM_GONE';
  if (record > head.recordNext) return 'RECORD_OUT_OF_RANGE';
  plan.recordStart = record;
  plan.recordNext = record;
  plan.startOffset = record === head.recordNext ? head.tail : offsetOfRecord(state, head, record);
  return 'OK';
}

function startRecord(head: Head, query: Query): number {
  if (query.mode === READ_RECORD) return query.value;
  if (query.mode === READ_RECORD_NOW) return head.recordNext;
  return Math.max(head.recordFirst, head.recordNext - query.value);
}

/** Offset at which `record` begins. */
export function offsetOfRecord(state: State, head: Head, record: number): number {
  if (record === head.recordFirst) return head.floor;
  // A record begins where the one before it ends.
  const row = rowOfRecord(state, head, record - 1);
  return row.start + (row.ends[record - 1 - row.firstRecord] as number);
}

function rowOfRecord(state: State, head: Head, record: number): Row {
  for (let i = head.rows.length - 1; i >= 0; i--) {
    const row = head.rows[i] as Row;
    // Rows inside one long record have no end of their own; the row where it ends comes after them.
    if (row.firstRecord <= record && record < row.firstRecord + row.count) return row;
  }
  let row = state.storedRow(head, state.storedRowOfRecord(head, record));
  while (record >= row.firstRecord + row.count) row = rowAt(state, head, row.end);
  return row;
}

/** The row that holds `offset` (below the tail). */
function rowAt(state: State, head: Head, offset: number): Row {
  for (let i = head.rows.length - 1; i >= 0; i--) {
    const row = head.rows[i] as Row;
    if (row.start <= offset) return row;
  }
  if (offset >= head.tailRowStart) return state.tailRow(head);
  return state.storedRow(head, offset === 0 ? 0 : state.storedRowStart(head, offset));
}

/** The row behind `row`; its start is known, so no search is needed. */
function rowAfter(state: State, head: Head, row: Row): Row {
  const start = row.end;
  const first = head.rows[0];
  if (first !== undefined && start >= first.start) return rowAt(state, head, start);
  return state.storedRow(head, start);
}

/** Gathers slices from plan.startOffset on, up to `budget` bytes (at least one record) and `records` records. */
function collect(state: State, head: Head, plan: Plan, budget: number, records: number): void {
  let row = rowAt(state, head, plan.startOffset);
  if (!head.json) {
    collectBytes(state, head, row, budget, plan);
    return;
  }
  plan.recordStart = row.firstRecord + endsUpTo(row, plan.startOffset - row.start);
  const recordLimit = plan.recordStart + records;
  let position = plan.startOffset;
  let record = plan.recordStart;
  // Pieces of a record that is longer than the rows seen so far; they count only once its end is found.
  let open: Slice[] = [];
  plan.nextOffset = position;
  while (position < head.tail && record < recordLimit) {
    const from = position - row.start;
    let to = from;
    let full = false;
    for (let i = record - row.firstRecord; i < row.count && record < recordLimit; i++) {
      const end = row.ends[i] as number;
      if (row.start + end - plan.startOffset > budget && record > plan.recordStart) {
        full = true;
        break;
      }
      to = end;
      record++;
    }
    if (to > from) {
      plan.slices.push(...open, { row, from, to });
      open = [];
      plan.nextOffset = row.start + to;
    }
    if (full || record >= recordLimit) break;
    if (to < row.length) open.push({ row, from: to, to: row.length });
    position = row.end;
    if (position < head.tail) row = rowAfter(state, head, row);
  }
  plan.recordNext = record;
}

function collectBytes(state: State, head: Head, first: Row, budget: number, plan: Plan): void {
  let row = first;
  let position = plan.startOffset;
  const limit = Math.min(head.tail, position + budget);
  for (;;) {
    const from = position - row.start;
    const to = Math.min(row.length, limit - row.start);
    plan.slices.push({ row, from, to });
    position = row.start + to;
    if (position >= limit) break;
    row = rowAfter(state, head, row);
  }
  plan.nextOffset = position;
}

/** How many messages or records end at or before `position`, relative to the row. */
function endsUpTo(row: Row, position: number): number {
  let low = 0;
  let high = row.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((row.ends[middle] as number) <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Is `offset` the start of a record? Only then does a JSON read make sense there. */
export function onRecordBorder(state: State, head: Head, offset: number): boolean {
  if (offset === head.floor || offset === head.tail) return true;
  const row = rowAt(state, head, offset - 1);
  const count = endsUpTo(row, offset - row.start);
  return count > 0 && row.ends[count - 1] === offset - row.start;
}

function describeRead(head: Head, plan: Plan, reply: Reply): void {
  reply.contentType = head.shownContentType;
  reply.startOffset = plan.startOffset;
  reply.nextOffset = plan.nextOffset;
  reply.a = head.incarnation;
  if (plan.nextOffset === head.tail) {
    reply.flags |= REPLY_UP_TO_DATE;
    if (head.closed) reply.flags |= REPLY_CLOSED;
  }
  if (!head.json) return;
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordStart = plan.recordStart;
  reply.recordNext = plan.recordNext;
}
