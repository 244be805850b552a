import assert from 'node:assert/strict';
import { parentPort, workerData } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { TransferReceiver, TransferSender } from '../../src/mailbox/transfer-channel.ts';
import type { TransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { createRing, RingReader, RingWriter } from '../../src/mailbox/ring.ts';
import { Parker, Waker } from '../../src/mailbox/wake.ts';

/**
 * The shard side of the two-thread tests: checks every record of `requests` and echoes it into `replies`, as a shard
 * loop would: drain, answer, publish once, park. A full reply ring makes it wait for space. The first message from the
 * parent ends it.
 *
 * Record: sequence u32, transfer id u32 (0: none), checksum u32 of the rest, the rest.
 */
export type FixtureData = {
  requests: SharedArrayBuffer;
  replies: SharedArrayBuffer;
  /** Records of one turn: with a small number the worker publishes, and sleeps, in the middle of everything. */
  turnRecordsMax: number;
  /** Random work after each turn, at most this many steps of the generator (about 2 ns each). */
  workStepsMax: number;
  channels?: {
    in: { port: MessagePort; shared: SharedArrayBuffer };
    out: { port: MessagePort; shared: SharedArrayBuffer };
  };
};

export const RECORD_HEAD_BYTES = 12;

export function createFixtureData(ringBytes: number, turnRecordsMax: number, workStepsMax: number): FixtureData {
  return { requests: createRing(ringBytes), replies: createRing(ringBytes), turnRecordsMax, workStepsMax };
}

export function fixtureChannels(into: TransferChannel, out: TransferChannel): NonNullable<FixtureData['channels']> {
  return { in: { port: into.receivePort, shared: into.shared }, out: { port: out.sendPort, shared: out.shared } };
}

/** Small, seeded, good enough to pick sizes: a failure names its seed and repeats. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return Math.floor(((state >>> 8) / 0x1000000) * below);
  };
}

export function checksum(bytes: Uint8Array, from: number, to: number): number {
  let sum = 0x811c9dc5;
  for (let at = from; at < to; at += 1) sum = Math.imul(sum ^ (bytes[at] as number), 0x01000193);
  return sum >>> 0;
}

/** Reserves, fills and commits one record; false when the ring is full. */
export function putRecord(writer: RingWriter, sequence: number, transferId: number, sizeBytes: number): boolean {
  const offset = writer.reserve(RECORD_HEAD_BYTES + sizeBytes);
  if (offset < 0) return false;
  const from = offset + RECORD_HEAD_BYTES;
  for (let at = 0; at < sizeBytes; at += 1) writer.bytes[from + at] = sequence * 31 + at * 7;
  writer.view.setUint32(offset, sequence, true);
  writer.view.setUint32(offset + 4, transferId, true);
  writer.view.setUint32(offset + 8, checksum(writer.bytes, from, from + sizeBytes), true);
  writer.commit(RECORD_HEAD_BYTES + sizeBytes);
  return true;
}

/** Checks the reader's current record against the expected sequence and returns its transfer id. */
export function checkRecord(reader: RingReader, sequence: number): number {
  const { offset, length, view, bytes } = reader;
  if (view.getUint32(offset, true) !== sequence) assert.equal(view.getUint32(offset, true), sequence, 'sequence');
  const sum = checksum(bytes, offset + RECORD_HEAD_BYTES, offset + length);
  if (view.getUint32(offset + 8, true) !== sum) assert.fail(`record ${sequence}: checksum`);
  return view.getUint32(offset + 4, true);
}

/** Copies the reader's current record into the writer's ring; false when it is full. */
export function copyRecord(reader: RingReader, writer: RingWriter): number {
  const offset = writer.reserve(reader.length);
  if (offset < 0) return -1;
  writer.bytes.set(reader.bytes.subarray(reader.offset, reader.offset + reader.length), offset);
  writer.commit(reader.length);
  return offset;
}

async function echo(data: FixtureData): Promise<void> {
  const reader = new RingReader(data.requests);
  const writer = new RingWriter(data.replies);
  const waker = new Waker(data.replies);
  const random = randomFrom(99);
  const channels = data.channels;
  const channelIn = channels && new TransferReceiver(channels.in.port, channels.in.shared);
  const channelOut = channels && new TransferSender(channels.out.port, channels.out.shared);
  let sequence = 0;
  let held = false; // the reader's current record waits for space in the reply ring
  const parker = new Parker(reader, () => (held ? writer.reserve(reader.length) >= 0 : reader.hasNext()));
  for (;;) {
    for (let records = 0; records < data.turnRecordsMax; records += 1) {
      if (!held) {
        if (!reader.next()) break;
        checkRecord(reader, sequence);
        sequence += 1;
      }
      const offset = copyRecord(reader, writer);
      held = offset < 0;
      if (held) break;
      const transferId = reader.view.getUint32(reader.offset + 4, true);
      if (transferId === 0 || channelIn === undefined || channelOut === undefined) continue;
      writer.view.setUint32(offset + 4, channelOut.send(channelIn.take(transferId)), true);
    }
    // Release before publish: the replies indicate free space, and no later signal would.
    if (held) writer.requestSpace();
    else reader.release();
    if (writer.publish()) waker.wake();
    for (let steps = random(data.workStepsMax + 1); steps > 0; steps -= 1) random(1);
    await parker.park(Infinity);
  }
}

if (parentPort !== null && workerData !== null) {
  parentPort.on('message', () => process.exit(0));
  void echo(workerData as FixtureData);
}
