/**
 * Application snapshots and the start offset. A snapshot summarises the stream up to a position; the
 * start offset may rise up to that position, never beyond.
 */
import { compareBytes } from '../../base/bytes.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { Command } from '../../protocol/command.ts';
import { type Position, type Publish, decodePublish, decodeRetention } from '../../protocol/position-command.ts';
import { REPLY_RECORDS, type Reply, explain } from '../../protocol/reply.ts';
import { refuse, refuseAbsent } from './append.ts';
import { raiseStartOffset, recordAt } from '../cold/hot.ts';
import type { Head } from '../core/head.ts';
import { offsetOfRecord } from './read.ts';
import type { Snapshot } from '../core/snapshots.ts';
import type { State } from '../core/state.ts';

export function applyPublish(state: State, command: Command, reply: Reply): void {
  const publish = decodePublish(command.payload());
  if (publish === undefined) return refuse(reply, 'INTERNAL');
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) return refuseAbsent(state, head, command, reply);
  const checked = checkPublish(state, head, publish);
  if (typeof checked === 'string') return refuseAt(reply, checked, head);
  const { offset, record } = checked;
  if (record === undefined) return describe(head, offset, reply);
  const { digest, bytes } = publish;
  const contentType = command.contentTypeBytes === 0 ? 'application/octet-stream' : command.contentType();
  const snapshot = { offset, record, contentType, digest, size: bytes.length };
  state.snapshots.put(head.incarnation, snapshot, bytes.slice());
  head.snapshotOffset = offset;
  state.touch(head, bytes.length);
  return describe(head, offset, reply);
}

/** Where the snapshot is to stand; without `record` it stands there already, because this is a repeat. */
interface SnapshotPlace {
  readonly offset: number;
  readonly record?: number;
}

/** The refusal, or where the snapshot goes. */
export function checkPublish(state: State, head: Head, publish: Publish): SnapshotPlace | ErrorCode {
  const { position, digest, match } = publish;
  const offset = offsetOf(state, head, position);
  if (typeof offset === 'string') return offset;
  if (offset < head.startOffset) return 'STREAM_GONE';
  if (offset > head.tail) return 'SNAPSHOT_BEYOND_TAIL';
  const present = published(state, head);
  // A repeat whose first answer was lost names the snapshot that it has replaced by now.
  if (present?.offset === offset && compareBytes(digest, present.digest) === 0) return { offset };
  if (match !== undefined && (present === undefined || compareBytes(match, present.digest) !== 0)) {
    return 'SNAPSHOT_MISMATCH';
  }
  if (present !== undefined && offset < present.offset) return 'SNAPSHOT_STALE';
  if (present?.offset === offset) return 'SNAPSHOT_CONFLICT';
  const record = recordOf(state, head, position, offset);
  return typeof record === 'string' ? record : { offset, record };
}

export function applyRetention(state: State, command: Command, reply: Reply): void {
  const position = decodeRetention(command.payload());
  if (position === undefined) return refuse(reply, 'INTERNAL');
  const head = state.find(command.bytes, command.keyAt, command.keyBytes);
  if (head === undefined || head.expired(command.nowMs)) return refuseAbsent(state, head, command, reply);
  const offset = offsetOf(state, head, position);
  if (typeof offset === 'string') return refuseAt(reply, offset, head);
  if (offset < head.startOffset) return refuseAt(reply, 'RETENTION_BACKWARDS', head);
  const present = published(state, head);
  if (present === undefined || offset > present.offset) return refuseAt(reply, 'RETENTION_BEYOND_SNAPSHOT', head);
  const record = offset === present.offset ? present.record : recordOf(state, head, position, offset);
  if (typeof record === 'string') return refuseAt(reply, record, head);
  raiseStartOffset(state, head, offset, record, command.nowMs);
  return describe(head, offset, reply);
}

/** Undefined when none is published. */
export function published(state: State, head: Head): Snapshot | undefined {
  return head.snapshotOffset < 0 ? undefined : state.snapshots.of(state.tx, head.incarnation);
}

function offsetOf(state: State, head: Head, position: Position): number | ErrorCode {
  const { byRecord, value } = position;
  if (!byRecord) return value;
  if (!head.json) return 'RECORDS_UNAVAILABLE';
  if (value < head.recordFirst) return 'STREAM_GONE';
  if (value > head.recordNext) return 'RECORD_OUT_OF_RANGE';
  const offset = offsetOfRecord(state, head, value);
  if (offset >= 0) return offset;
  return isChecked(head, position) && position.checkedRecord === value ? position.checkedOffset : 'BORDER_UNCHECKED';
}

/** Ordinal of the message or record that begins at `offset`, between start offset and tail. */
function recordOf(state: State, head: Head, position: Position, offset: number): number | ErrorCode {
  if (offset === head.startOffset) return head.recordFirst;
  if (offset >= head.hotStart) {
    const record = recordAt(state, head, offset);
    return record < 0 ? 'POSITION_INSIDE_MESSAGE' : record;
  }
  return isChecked(head, position) && position.checkedOffset === offset ? position.checkedRecord : 'BORDER_UNCHECKED';
}

function isChecked(head: Head, { checkedIncarnation }: Position): boolean {
  return checkedIncarnation === head.incarnation;
}

function refuseAt(reply: Reply, code: ErrorCode, head: Head): void {
  refuse(reply, code, head);
  if (code === 'STREAM_GONE') reply.nextOffset = head.startOffset;
  const snapshot = head.snapshotOffset < 0 ? 'none is published' : `it is at ${head.snapshotOffset}`;
  if (code === 'STREAM_GONE' || code === 'RETENTION_BACKWARDS') explain(reply, `the floor is ${head.startOffset}`);
  else if (code === 'SNAPSHOT_BEYOND_TAIL') explain(reply, `the tail is ${head.tail}`);
  else if (code === 'SNAPSHOT_STALE' || code === 'RETENTION_BEYOND_SNAPSHOT') explain(reply, snapshot);
}

/** startOffset is the position; nextOffset and records are as in HEAD. */
function describe(head: Head, offset: number, reply: Reply): void {
  reply.startOffset = offset;
  reply.nextOffset = head.tail;
  if (!head.json) return;
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordNext = head.recordNext;
}
