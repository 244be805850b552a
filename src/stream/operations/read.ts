/**
 * Reads of applied state (invariant 4): where a read starts and what its answer contains. Bytes
 * in rows are collected immediately (collect.ts). For bytes in the cold store the answer is a
 * plan (cold/plan.ts), which the main thread executes.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { READ_BYTES_MAX } from '../../base/limits.ts';
import {
  REPLY_CLOSED,
  REPLY_COLD,
  REPLY_HELD,
  REPLY_RECORDS,
  REPLY_UP_TO_DATE,
  type Reply,
  explain,
} from '../../protocol/reply.ts';
import { refuse } from './append.ts';
import { recordAt } from '../cold/hot.ts';
import { planCold } from '../cold/plan.ts';
import { type ReadPlan, newPlan } from '../core/collect.ts';
import type { Head } from '../core/head.ts';
import { RowView } from '../core/row-view.ts';
import type { State } from '../core/state.ts';
import {
  type ReadFields,
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  HELD_NOTHING,
  HELD_TO_TAIL,
} from '../../protocol/read-fields.ts';
import { showLineage, showRead } from '../../protocol/queries/read.ts';

/**
 * Plans a READ of a live stream. On refusal the reply has the code and the result is undefined; otherwise the reply has
 * everything except the body.
 */
export function planRead(state: State, head: Head, query: ReadFields, reply: Reply): ReadPlan | undefined {
  const plan = newPlan(head.json, query.readFlags, head.tail, head.recordNext);
  let code = checkPosition(head, query);
  showLineage(reply, state.lineage);
  if (code === 'OK' && isHeld(state, head, query)) {
    describeHeld(head, query, plan, reply);
    return plan;
  }
  if (code === 'OK') code = resolveStart(state, head, query, plan);
  const budget = query.maxBytes > 0 ? Math.min(query.maxBytes, READ_BYTES_MAX) : READ_BYTES_MAX;
  const records = query.maxRecords > 0 ? query.maxRecords : Infinity;
  const cold = plan.startOffset < head.hotStart;
  if (cold && code === 'OK') code = planCold(state, head, query, plan, budget, records);
  if (code !== 'OK') {
    refuse(reply, code, head);
    if (code === 'STREAM_GONE') {
      reply.nextOffset = head.startOffset;
      explain(reply, `the floor is ${head.startOffset}`);
    } else if (code === 'OFFSET_OUT_OF_RANGE') explain(reply, `the tail is ${head.tail}`);
    else if (code === 'RECORD_OUT_OF_RANGE') explain(reply, `the record tail is ${head.recordNext}`);
    return undefined;
  }
  if (cold) {
    describeStream(head, plan, reply);
    reply.flags |= REPLY_COLD;
    return plan;
  }
  state.memory.collector.collect(state.hotRows.of(head), plan, budget, records);
  describeRead(head, plan, reply);
  return plan;
}

/**
 * Plans the content of a tail event: everything from `from` to the tail. Undefined when that exceeds `budget` bytes;
 * the reply then describes the move without a body.
 */
export function planTail(state: State, head: Head, from: number, budget: number, reply: Reply): ReadPlan | undefined {
  const plan = newPlan(head.json, 0, from, head.recordNext);
  // Bytes that left the rows in the turn in which they arrived are read again by a reader that can wait for the cold
  // store.
  const whole = head.tail - from <= budget && from >= head.hotStart;
  if (whole) state.memory.collector.collect(state.hotRows.of(head), plan, Infinity, Infinity);
  else plan.nextOffset = head.tail;
  describeRead(head, plan, reply);
  return whole ? plan : undefined;
}

/** Is the position within what the stream has? Needs nothing but the head. */
function checkPosition(head: Head, query: ReadFields): ErrorCode {
  if (query.mode === READ_NOW) return 'OK';
  if (query.mode === READ_OFFSET) {
    if (query.value > head.tail) return 'OFFSET_OUT_OF_RANGE';
    return query.value < head.startOffset ? 'STREAM_GONE' : 'OK';
  }
  if (!head.json) return 'RECORDS_UNAVAILABLE';
  const record = startRecord(head, query);
  if (record < head.recordFirst) return 'STREAM_GONE';
  return record > head.recordNext ? 'RECORD_OUT_OF_RANGE' : 'OK';
}

/**
 * Would the answer bring the bytes that the main thread holds? Those that ended at a bound of the read end there for
 * as long as the stream is; those that ended at its tail, for as long as nothing is appended. Where they begin need
 * not be looked up: the position is within the stream, and it led to them before.
 */
function isHeld({ lineage }: State, { incarnation, tail }: Head, query: ReadFields): boolean {
  if (query.held === HELD_NOTHING || query.heldIncarnation !== incarnation || query.heldLineage !== lineage)
    return false;
  return query.held === HELD_TO_TAIL ? query.heldEnd === tail : query.heldEnd <= tail;
}

/** The main thread knows where the held bytes begin. */
function describeHeld(head: Head, query: ReadFields, plan: ReadPlan, reply: Reply): void {
  plan.nextOffset = query.heldEnd;
  describeRead(head, plan, reply);
  reply.flags |= REPLY_HELD;
}

/** Where a valid position is. */
function resolveStart(state: State, head: Head, query: ReadFields, plan: ReadPlan): ErrorCode {
  if (query.mode === READ_NOW) return 'OK';
  if (query.mode === READ_OFFSET) {
    plan.startOffset = query.value;
    // Below the rows only the chunks know the boundaries.
    if ((!plan.json && !plan.parts) || query.value === head.startOffset || query.value < head.hotStart) return 'OK';
    return recordAt(state, head, query.value) < 0 ? 'OFFSET_INSIDE_RECORD' : 'OK';
  }
  const record = startRecord(head, query);
  plan.recordStart = record;
  plan.recordNext = record;
  plan.startOffset = offsetOfRecord(state, head, record);
  return 'OK';
}

function startRecord(head: Head, query: ReadFields): number {
  if (query.mode === READ_RECORD) return query.value;
  if (query.mode === READ_RECORD_NOW) return head.recordNext;
  return Math.max(head.recordFirst, head.recordNext - query.value);
}

/** Offset at which `record` begins; -1: somewhere in the chunk in which the previous record ends. */
export function offsetOfRecord(state: State, head: Head, record: number): number {
  if (record === head.recordFirst) return head.startOffset;
  if (record === head.hotRecord) return head.hotStart;
  if (record === head.recordNext) return head.tail;
  if (record < head.hotRecord) return -1;
  // A record begins where the previous one ends.
  const before = record - 1;
  const view = new RowView();
  state.hotRows.of(head).viewRecord(view, before);
  return view.start + view.end(before - view.firstRecord);
}

function describeRead(head: Head, plan: ReadPlan, reply: Reply): void {
  describeStream(head, plan, reply);
  if (plan.nextOffset === head.tail) {
    reply.flags |= REPLY_UP_TO_DATE;
    if (head.closed) reply.flags |= REPLY_CLOSED;
  }
}

function describeStream(head: Head, plan: ReadPlan, reply: Reply): void {
  reply.contentType = head.shownContentType;
  reply.startOffset = plan.startOffset;
  reply.nextOffset = plan.nextOffset;
  showRead(reply, head.incarnation, head.createdAtMs);
  if (head.json) {
    reply.flags |= REPLY_RECORDS;
    reply.recordFirst = head.recordFirst;
  } else if (!plan.parts) return;
  // For a byte stream these count its messages, for readers that ask for parts.
  reply.recordStart = plan.recordStart;
  reply.recordNext = plan.recordNext;
}
