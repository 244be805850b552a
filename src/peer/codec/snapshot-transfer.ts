/** Frames of one snapshot transfer. Each one names group and transfer, so abandoned ones cannot mix with the next. */
import { Reader, Writer } from '../../base/cursor.ts';
import { type Shape, type Struct, type StructValues, f64, struct, u16, u32, u8 } from '../../base/struct.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, sealFrame } from './frame.ts';
import { messageBytes, readMessage, writeMessage } from '../../raft/codec/message.ts';
import type { GroupSnapshotRequest } from '../../raft/types.ts';

export interface SnapshotBegin {
  readonly group: number;
  readonly transfer: number;
  readonly message: GroupSnapshotRequest;
  /** The hosts' own metadata. A view into the frame. */
  readonly metadata: Uint8Array;
}

export interface SnapshotChunk {
  readonly group: number;
  readonly transfer: number;
  /** Bytes sent before this chunk, to detect gaps. */
  readonly offset: number;
  /** A view into the frame. */
  readonly bytes: Uint8Array;
}

export interface SnapshotEnd {
  readonly group: number;
  readonly transfer: number;
  readonly totalBytes: number;
  /** False: the sender gave up, the receiver discards what it has. */
  readonly complete: boolean;
}

/** `receiving` is flow control; the others end the transfer. */
export type SnapshotStatus = 'receiving' | 'installed' | 'failed';
const STATUSES: readonly SnapshotStatus[] = ['receiving', 'installed', 'failed'];

export interface SnapshotAck {
  readonly group: number;
  readonly transfer: number;
  /** The sender's run that the answer is for. */
  readonly boot: number;
  readonly receivedBytes: number;
  readonly status: SnapshotStatus;
}

const TRANSFER = { group: u16, transfer: u32 };
export const SNAPSHOT_BEGIN = struct(TRANSFER, 'message; metadata');
export const SNAPSHOT_CHUNK = struct({ ...TRANSFER, offset: f64 }, 'bytes');
export const SNAPSHOT_END = struct({ ...TRANSFER, totalBytes: f64, complete: u8 });
export const SNAPSHOT_ACK = struct({ ...TRANSFER, boot: f64, receivedBytes: f64, status: u8 });

export function encodeSnapshotBegin({ group, transfer, message, metadata }: SnapshotBegin): Uint8Array {
  const writer = writerFor(SNAPSHOT_BEGIN, { group, transfer }, messageBytes(message) + metadata.length);
  writeMessage(writer, message);
  writer.raw(metadata);
  return sealFrame(writer.finish(), FRAME_KIND.snapshotBegin);
}

export function decodeSnapshotBegin(payload: Uint8Array, from: number, to: number): SnapshotBegin | undefined {
  const reader = new Reader(payload);
  const { group, transfer } = reader.record(SNAPSHOT_BEGIN);
  const message = readMessage(reader, from, to);
  if (message?.type !== 'snapshot') return undefined;
  return { group, transfer, message, metadata: reader.rest() };
}

export function encodeSnapshotChunk(chunk: SnapshotChunk): Uint8Array {
  const writer = writerFor(SNAPSHOT_CHUNK, chunk, chunk.bytes.length);
  writer.raw(chunk.bytes);
  return sealFrame(writer.finish(), FRAME_KIND.snapshotChunk);
}

export function decodeSnapshotChunk(payload: Uint8Array): SnapshotChunk | undefined {
  const reader = new Reader(payload);
  const chunk = { ...reader.record(SNAPSHOT_CHUNK), bytes: reader.rest() };
  return reader.bad ? undefined : chunk;
}

export function encodeSnapshotEnd(end: SnapshotEnd): Uint8Array {
  const writer = writerFor(SNAPSHOT_END, { ...end, complete: end.complete ? 1 : 0 });
  return sealFrame(writer.finish(), FRAME_KIND.snapshotEnd);
}

export function decodeSnapshotEnd(payload: Uint8Array): SnapshotEnd | undefined {
  const reader = new Reader(payload);
  const end = reader.record(SNAPSHOT_END);
  return reader.finished && end.complete <= 1 ? { ...end, complete: end.complete === 1 } : undefined;
}

export function encodeSnapshotAck(ack: SnapshotAck): Uint8Array {
  const writer = writerFor(SNAPSHOT_ACK, { ...ack, status: STATUSES.indexOf(ack.status) });
  return sealFrame(writer.finish(), FRAME_KIND.snapshotAck);
}

export function decodeSnapshotAck(payload: Uint8Array): SnapshotAck | undefined {
  const reader = new Reader(payload);
  const ack = reader.record(SNAPSHOT_ACK);
  const status = STATUSES[ack.status];
  return reader.finished && status !== undefined ? { ...ack, status } : undefined;
}

/** With room for `restBytes` after the record. */
function writerFor<S extends Shape>(record: Struct<S>, values: Readonly<StructValues<S>>, restBytes = 0): Writer {
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + record.size + restBytes), FRAME_HEAD_BYTES);
  writer.record(record, values);
  return writer;
}
