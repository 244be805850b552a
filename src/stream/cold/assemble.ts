/**
 * The second half of a cold read: builds the answer from the plan and the bytes of its chunks, the same answer that
 * planRead gives for bytes in rows. Pure; runs on the main thread.
 */
import { errorNumber } from '../../base/errors.ts';
import { READ_BYTES_MAX } from '../../base/limits.ts';
import { type DecodedChunk, decodeChunk } from './chunk-layout.ts';
import type { ChunkRef, ColdPlan } from '../../protocol/cold.ts';
import { REPLY_CLOSED, REPLY_COLD, REPLY_UP_TO_DATE, type Reply } from '../../protocol/reply.ts';
import { type ReadCollector, type RowSource, newPlan } from '../core/collect.ts';
import { storedPayloadBytes } from '../core/row.ts';
import { RowView } from '../core/row-view.ts';
import { READ_FLAG_PARTS, showRead } from '../../protocol/queries/read.ts';

const NO_BYTES = new Uint8Array(0);

class ChunkRows implements RowSource {
  end: number;
  readonly #starts: number[] = [];
  readonly #values: Uint8Array[] = [];

  constructor(start: number) {
    this.end = start;
  }

  /** False: the chunk does not match its reference. Its digest was verified before, so this detects our own bugs. */
  add(chunk: DecodedChunk | undefined, incarnation: number, start: number, end: number): boolean {
    if (chunk === undefined || chunk.incarnation !== incarnation || chunk.start !== start || chunk.end !== end)
      return false;
    let at = start;
    for (const value of chunk.rows) {
      const size = storedPayloadBytes(value);
      if (size <= 0) return false;
      this.#starts.push(at);
      this.#values.push(value);
      at += size;
    }
    this.end = end;
    return at === end;
  }

  viewAt(into: RowView, offset: number, start: number): void {
    let low = 0;
    let high = this.#starts.length - 1;
    const wanted = start >= 0 ? start : offset;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= wanted) low = middle;
      else high = middle - 1;
    }
    into.ofValue(this.#starts[low] as number, this.#values[low] as Uint8Array);
  }

  /** Offset at which `record` begins, right after the end of another one in these rows; -1: it does not. */
  offsetOf(record: number): number {
    const view = new RowView();
    for (let i = 0; i < this.#starts.length; i++) {
      view.ofValue(this.#starts[i] as number, this.#values[i] as Uint8Array);
      const position = record - 1 - view.firstRecord;
      if (position >= 0 && position < view.count) return view.start + view.end(position);
    }
    return -1;
  }
}

/**
 * Answers the read into `reply`, which came with the plan. `chunks`: the bytes of the first plan.needed refs. Returns
 * the first invalid ref, if any; the reply is then unchanged. reply.body is valid until the next use of the collector.
 */
export function assembleRead(
  plan: ColdPlan,
  chunks: readonly Uint8Array[],
  reply: Reply,
  collector: ReadCollector,
): ChunkRef | undefined {
  const [first] = plan.refs;
  const rows = new ChunkRows(first?.start ?? plan.startOffset);
  for (let i = 0; i < plan.needed; i++) {
    const ref = plan.refs[i] as ChunkRef;
    const bytes = chunks[i] ?? NO_BYTES;
    if (ref.start !== rows.end || !rows.add(decodeChunk(bytes), plan.incarnation, ref.start, ref.end)) return ref;
  }
  if (plan.hot.length > 0) {
    const hot = decodeChunk(plan.hot);
    const good = hot?.start === rows.end && rows.add(hot, plan.incarnation, hot.start, hot.end);
    if (!good) return first;
  }
  const parts = (plan.flags & READ_FLAG_PARTS) !== 0;
  const start = plan.startOffset >= 0 ? plan.startOffset : rows.offsetOf(plan.startRecord);
  if (start < 0) return first;
  reply.flags &= ~REPLY_COLD;
  if (!plan.onBorder && (plan.json || parts) && !onBorder(rows, start)) {
    refuseInside(plan, reply);
    return undefined;
  }
  const answer = newPlan(plan.json, plan.flags, start, 0);
  const budget = plan.maxBytes > 0 ? Math.min(plan.maxBytes, READ_BYTES_MAX) : READ_BYTES_MAX;
  collector.collect(rows, answer, budget, plan.maxRecords > 0 ? plan.maxRecords : Infinity);
  reply.startOffset = answer.startOffset;
  reply.nextOffset = answer.nextOffset;
  reply.body = answer.body;
  if (plan.json || parts) {
    reply.recordStart = answer.recordStart;
    reply.recordNext = answer.recordNext;
  }
  if (answer.nextOffset === plan.tail) {
    reply.flags |= REPLY_UP_TO_DATE;
    if (plan.closed) reply.flags |= REPLY_CLOSED;
  }
  return undefined;
}

/** `offset` is after the start of the first chunk. */
function onBorder(rows: ChunkRows, offset: number): boolean {
  const view = new RowView();
  rows.viewAt(view, offset - 1, -1);
  const ends = view.endsUpTo(offset - view.start);
  return ends > 0 && view.end(ends - 1) === offset - view.start;
}

/** As `refuse` in append.ts, from the plan's information about the head. */
function refuseInside(plan: ColdPlan, reply: Reply): void {
  const { recordFirst } = reply;
  reply.code = errorNumber('OFFSET_INSIDE_RECORD');
  reply.contentType = '';
  reply.startOffset = 0;
  showRead(reply, 0, 0);
  reply.body = undefined;
  reply.nextOffset = plan.tail;
  if (plan.closed) reply.flags |= REPLY_CLOSED;
  if (!plan.json) return;
  reply.recordFirst = recordFirst;
  reply.recordStart = plan.recordTail;
  reply.recordNext = plan.recordTail;
}
