/** Frames of one snapshot transfer. Each one names group and transfer, so abandoned ones cannot mix with the next. */
import { Reader, Writer } from '../../base/cursor.ts';
import { type Shape, type Struct, type StructValues, f64, struct, u16, u32, u8 } from '../../base/struct.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, sealFrame } from './frame.ts';
import { messageBytes, readMessage, writeMessage } from '../../raft/codec/message.ts';

/** `receiving` is flow control; the others end the transfer. */
const STATUSES = ['receiving', 'installed', 'failed'] as const;

const TRANSFER = { group: u16, transfer: u32 };
export const SNAPSHOT_BEGIN = struct(TRANSFER, 'message; metadata');
/** `offset`: bytes sent before this chunk, to detect gaps. */
export const SNAPSHOT_CHUNK = struct({ ...TRANSFER, offset: f64 }, 'bytes');
/** `complete` 0: the sender gave up, the receiver discards what it has. */
export const SNAPSHOT_END = struct({ ...TRANSFER, totalBytes: f64, complete: u8 });
/** `boot`: the sender's run that the answer is for. */
export const SNAPSHOT_ACK = struct({ ...TRANSFER, boot: f64, receivedBytes: f64, status: u8 });

/** Bytes are views into the frame. `metadata`: the hosts' own. */
export type SnapshotBegin = NonNullable<ReturnType<typeof decodeSnapshotBegin>>;
export type SnapshotChunk = NonNullable<ReturnType<typeof decodeSnapshotChunk>>;
export type SnapshotEnd = NonNullable<ReturnType<typeof decodeSnapshotEnd>>;
export type SnapshotAck = NonNullable<ReturnType<typeof decodeSnapshotAck>>;

export function encodeSnapshotBegin({ group, transfer, message, metadata }: SnapshotBegin): Uint8Array {
  const writer = writerFor(SNAPSHOT_BEGIN, { group, transfer }, messageBytes(message) + metadata.length);
  writeMessage(writer, message);
  writer.raw(metadata);
  return sealFrame(writer.finish(), FRAME_KIND.snapshotBegin);
}

export function decodeSnapshotBegin(payload: Uint8Array, from: number, to: number) {
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

export function decodeSnapshotChunk(payload: Uint8Array) {
  const reader = new Reader(payload);
  const chunk = { ...reader.record(SNAPSHOT_CHUNK), bytes: reader.rest() };
  return reader.bad ? undefined : chunk;
}

export function encodeSnapshotEnd(end: SnapshotEnd): Uint8Array {
  const writer = writerFor(SNAPSHOT_END, { ...end, complete: end.complete ? 1 : 0 });
  return sealFrame(writer.finish(), FRAME_KIND.snapshotEnd);
}

export function decodeSnapshotEnd(payload: Uint8Array) {
  const reader = new Reader(payload);
  const end = reader.record(SNAPSHOT_END);
  return reader.finished && end.complete <= 1 ? { ...end, complete: end.complete === 1 } : undefined;
}

export function encodeSnapshotAck(ack: SnapshotAck): Uint8Array {
  const writer = writerFor(SNAPSHOT_ACK, { ...ack, status: STATUSES.indexOf(ack.status) });
  return sealFrame(writer.finish(), FRAME_KIND.snapshotAck);
}

export function decodeSnapshotAck(payload: Uint8Array) {
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
