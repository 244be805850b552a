/**
 * Reads of applied state. A read gathers its bytes in one buffer, row by row, and says what they are; the caller copies
 * them into the reply. The buffer is reused, so a result is valid until the next read.
 *
 * JSON streams answer with the array form. A line of the stored form ends in \n, so the array is `[`, the lines with `,`
 * for \n, and `]` for the last one.
 */
import { assert } from '../base/assert.ts';
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
import { TAG_DATA, positionKey } from './keys.ts';
import { RowView } from './row-view.ts';
import type { State } from './state.ts';

const OPEN = 0x5b;
const CLOSE = 0x5d;
const COMMA = 0x2c;
const NEWLINE = 0x0a;

/** Room for a usual answer; one that held a huge record is given back. */
const BUFFER_BYTES = READ_BYTES_MAX + 64 * 1024;
let buffer = new Uint8Array(BUFFER_BYTES);
const view = new RowView();

function reserve(used: number, extra: number): void {
  if (used + extra <= buffer.length) return;
  const grown = new Uint8Array(Math.max(used + extra, 2 * buffer.length));
  grown.set(buffer.subarray(0, used));
  buffer = grown;
}

/** What a read returns. */
export interface Plan {
  startOffset: number;
  nextOffset: number;
  recordStart: number;
  recordNext: number;
  readonly json: boolean;
  readonly envelope: boolean;
  /** Raw bytes, or the JSON array. Valid until the next read. */
  body: Uint8Array;
}

const NO_BODY = new Uint8Array(0);

function newPlan(head: Head, startOffset: number, envelope: boolean): Plan {
  return {
    startOffset,
    nextOffset: startOffset,
    recordStart: head.recordNext,
    recordNext: head.recordNext,
    json: head.json,
    envelope,
    body: NO_BODY,
  };
}

/** The lines of the buffer as `[{"record":n,"value":...},...]` (wire-facts 2.12, in the array form of decisions.md). */
function envelopeBody(lines: Uint8Array, firstRecord: number): Uint8Array {
  const parts: Uint8Array[] = [];
  let start = 0;
  let record = firstRecord;
  for (let end = lines.indexOf(NEWLINE); end >= 0; end = lines.indexOf(NEWLINE, start)) {
    const front = `${parts.length === 0 ? '[' : ','}{"record":${record++},"value":`;
    parts.push(encodeUtf8(front), lines.subarray(start, end), encodeUtf8('}'));
    start = end + 1;
  }
  parts.push(encodeUtf8(parts.length === 0 ? '[]' : ']'));
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
  const plan = newPlan(head, head.tail, (query.flags & READ_FLAG_ENVELOPE) !== 0);
  const code = resolveStart(state, head, query, plan);
  if (code !== 'OK') {
    refuse(reply, code, head);
    if (code === 'STREAM_GONE') reply.nextOffset = head.floor;
    return undefined;
  }
  const budget = query.maxBytes > 0 ? Math.min(query.maxBytes, READ_BYTES_MAX) : READ_BYTES_MAX;
  const records = query.maxRecords > 0 ? query.maxRecords : Infinity;
  plan.nextOffset = plan.startOffset;
  collect(state, head, plan, budget, records);
  describeRead(head, plan, reply);
  return plan;
}

/**
 * Plans what a tail event carries: everything from `from` to the tail. Undefined when that is more than `budget` bytes;
 * the reply then describes the move without a body.
 */
export function planTail(state: State, head: Head, from: number, budget: number, reply: Reply): Plan | undefined {
  const plan = newPlan(head, from, false);
  const whole = head.tail - from <= budget;
  if (whole) collect(state, head, plan, Infinity, Infinity);
  else plan.nextOffset = head.tail;
  describeRead(head, plan, reply);
  return whole ? plan : undefined;
}

function resolveStart(state: State, head: Head, query: Query, plan: Plan): ErrorCode {
  if (query.mode === READ_NOW) return 'OK';
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
function offsetOfRecord(state: State, head: Head, record: number): number {
  if (record === head.recordFirst) return head.floor;
  // A record begins where the one before it ends.
  const before = record - 1;
  viewRowOfRecord(state, head, before);
  return view.start + view.end(before - view.firstRecord);
}

/** Views the row in which `record` ends. */
function viewRowOfRecord(state: State, head: Head, record: number): void {
  for (let i = head.rows.length - 1; i >= 0; i--) {
    const row = head.rows[i];
    // Rows inside one long record have no end of their own; the row where it ends comes after them.
    if (row === undefined || row.firstRecord > record || record >= row.firstRecord + row.count) continue;
    view.ofRow(row);
    return;
  }
  viewStored(state, head, state.storedRowOfRecord(head, record));
  while (record >= view.firstRecord + view.count) viewAt(state, head, view.stop);
}

/** Views the row that holds `offset` (below the tail). `start`, when known, saves the search. */
function viewAt(state: State, head: Head, offset: number, start = -1): void {
  for (let i = head.rows.length - 1; i >= 0; i--) {
    const row = head.rows[i];
    if (row === undefined || row.start > offset) continue;
    view.ofRow(row);
    return;
  }
  if (start >= 0) viewStored(state, head, start);
  else if (offset >= head.tailRowStart) viewStored(state, head, head.tailRowStart);
  else viewStored(state, head, offset === 0 ? 0 : state.storedRowStart(head, offset));
}

function viewStored(state: State, head: Head, start: number): void {
  const value = state.tx.get(positionKey(state.prefix, TAG_DATA, head.incarnation, start));
  assert(value !== undefined, `data row ${start} of incarnation ${head.incarnation} is in the store`);
  view.ofValue(start, value);
}

/** Gathers the body from plan.startOffset on: up to `budget` bytes, but at least one record, and `records` records. */
function collect(state: State, head: Head, plan: Plan, budget: number, records: number): void {
  if (!head.json) {
    plan.body = collectBytes(state, head, plan, budget);
    return;
  }
  const size = plan.startOffset < head.tail ? collectLines(state, head, plan, budget, records) : 0;
  if (plan.envelope) {
    plan.body = envelopeBody(buffer.subarray(1, 1 + size), plan.recordStart);
  } else {
    buffer[0] = OPEN;
    buffer[Math.max(1, size)] = CLOSE;
    plan.body = buffer.subarray(0, Math.max(2, size + 1));
  }
}

function collectBytes(state: State, head: Head, plan: Plan, budget: number): Uint8Array {
  const size = Math.min(head.tail - plan.startOffset, budget);
  startBuffer(size);
  let position = plan.startOffset;
  let start = -1;
  for (let done = 0; done < size;) {
    viewAt(state, head, position, start);
    const from = position - view.start;
    const part = Math.min(view.length - from, size - done);
    view.copy(from, from + part, buffer, done);
    done += part;
    position += part;
    // Rows follow each other without a gap.
    start = position;
  }
  plan.nextOffset = position;
  return buffer.subarray(0, size);
}

/**
 * Gathers whole lines behind buffer[0] and returns their size. The lines end in `,` unless for the envelope. Pieces of a
 * record that spans rows are gathered too, and count once its end is found.
 */
function collectLines(state: State, head: Head, plan: Plan, budget: number, records: number): number {
  startBuffer(Math.min(head.tail - plan.startOffset, budget) + 2);
  viewAt(state, head, plan.startOffset);
  plan.recordStart = view.firstRecord + view.endsUpTo(plan.startOffset - view.start);
  const separator = plan.envelope ? NEWLINE : COMMA;
  let record = plan.recordStart;
  let position = plan.startOffset;
  let gathered = 0;
  let whole = 0;
  for (;;) {
    const from = position - view.start;
    reserve(1 + gathered, view.length - from + 1);
    view.copy(from, view.length, buffer, 1 + gathered);
    let full = false;
    for (let i = record - view.firstRecord; i < view.count; i++) {
      const size = gathered + view.end(i) - from;
      full = record - plan.recordStart >= records || (size > budget && record > plan.recordStart);
      if (full) break;
      buffer[size] = separator;
      whole = size;
      record++;
    }
    gathered += view.length - from;
    position = view.stop;
    if (full || position >= head.tail || record - plan.recordStart >= records) break;
    // A long record behind the first one, of which no end is in sight within the budget.
    if (gathered > budget && record > plan.recordStart) break;
    viewAt(state, head, position, position);
  }
  plan.recordNext = record;
  plan.nextOffset = plan.startOffset + whole;
  return whole;
}

function startBuffer(size: number): void {
  if (buffer.length > 4 * BUFFER_BYTES && size <= BUFFER_BYTES) buffer = new Uint8Array(BUFFER_BYTES);
  reserve(0, size);
}

/** Is `offset` the start of a record? Only then does a JSON read make sense there. */
function onRecordBorder(state: State, head: Head, offset: number): boolean {
  if (offset === head.floor || offset === head.tail) return true;
  viewAt(state, head, offset - 1);
  const count = view.endsUpTo(offset - view.start);
  return count > 0 && view.end(count - 1) === offset - view.start;
}

function describeRead(head: Head, plan: Plan, reply: Reply): void {
  reply.contentType = head.shownContentType;
  reply.startOffset = plan.startOffset;
  reply.nextOffset = plan.nextOffset;
  reply.a = head.incarnation;
  reply.c = head.createdAtMs;
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
