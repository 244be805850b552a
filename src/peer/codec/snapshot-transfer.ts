/**
 * Frames of one snapshot transfer. Each one names group and transfer, so an abandoned transfer cannot mix with the
 * next.
 */
import { Reader, Writer } from '../../base/cursor.ts';
import {
  FRAME_HEAD_BYTES,
  FRAME_SNAPSHOT_ACK,
  FRAME_SNAPSHOT_BEGIN,
  FRAME_SNAPSHOT_CHUNK,
  FRAME_SNAPSHOT_END,
  sealFrame,
} from './frame.ts';
import { messageBytes, readMessage, writeMessage } from '../../raft/codec/message.ts';
import type { SnapshotRequest } from '../../raft/types.ts';

export interface SnapshotBegin {
  readonly group: number;
  readonly transfer: number;
  readonly message: SnapshotRequest;
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

/** BEGIN: group u16 | transfer u32 | message | metadata. */
export function encodeSnapshotBegin({ group, transfer, message, metadata }: SnapshotBegin): Uint8Array {
  const writer = writerFor(group, transfer, messageBytes(message) + metadata.length);
  writeMessage(writer, message);
  writer.raw(metadata);
  return sealFrame(writer.finish(), FRAME_SNAPSHOT_BEGIN);
}

export function decodeSnapshotBegin(payload: Uint8Array, from: number, to: number): SnapshotBegin | undefined {
  const reader = new Reader(payload);
  const group = reader.u16();
  const transfer = reader.u32();
  const message = readMessage(reader, from, to);
  if (message?.type !== 'snapshot') return undefined;
  return { group, transfer, message, metadata: reader.rest() };
}

/** CHUNK: group u16 | transfer u32 | offset f64 | bytes. */
export function encodeSnapshotChunk({ group, transfer, offset, bytes }: SnapshotChunk): Uint8Array {
  const writer = writerFor(group, transfer, 8 + bytes.length);
  writer.int53(offset);
  writer.raw(bytes);
  return sealFrame(writer.finish(), FRAME_SNAPSHOT_CHUNK);
}

export function decodeSnapshotChunk(payload: Uint8Array): SnapshotChunk | undefined {
  const reader = new Reader(payload);
  const chunk = { group: reader.u16(), transfer: reader.u32(), offset: reader.int53(), bytes: reader.rest() };
  return reader.bad ? undefined : chunk;
}

/** END: group u16 | transfer u32 | totalBytes f64 | complete u8 (0, 1). */
export function encodeSnapshotEnd({ group, transfer, totalBytes, complete }: SnapshotEnd): Uint8Array {
  const writer = writerFor(group, transfer, 9);
  writer.int53(totalBytes);
  writer.u8(complete ? 1 : 0);
  return sealFrame(writer.finish(), FRAME_SNAPSHOT_END);
}

export function decodeSnapshotEnd(payload: Uint8Array): SnapshotEnd | undefined {
  const reader = new Reader(payload);
  const end = { group: reader.u16(), transfer: reader.u32(), totalBytes: reader.int53() };
  const complete = reader.u8();
  return reader.finished && complete <= 1 ? { ...end, complete: complete === 1 } : undefined;
}

/** ACK: group u16 | transfer u32 | boot f64 | receivedBytes f64 | status u8. */
export function encodeSnapshotAck({ group, transfer, boot, receivedBytes, status }: SnapshotAck): Uint8Array {
  const writer = writerFor(group, transfer, 17);
  writer.int53(boot);
  writer.int53(receivedBytes);
  writer.u8(STATUSES.indexOf(status));
  return sealFrame(writer.finish(), FRAME_SNAPSHOT_ACK);
}

export function decodeSnapshotAck(payload: Uint8Array): SnapshotAck | undefined {
  const reader = new Reader(payload);
  const ack = { group: reader.u16(), transfer: reader.u32(), boot: reader.int53(), receivedBytes: reader.int53() };
  const status = STATUSES[reader.u8()];
  return reader.finished && status !== undefined ? { ...ack, status } : undefined;
}

function writerFor(group: number, transfer: number, restBytes: number): Writer {
  const writer = new Writer(new Uint8Array(FRAME_HEAD_BYTES + 6 + restBytes), FRAME_HEAD_BYTES);
  writer.u16(group);
  writer.u32(transfer);
  return writer;
}
