import { parentPort, workerData } from 'node:worker_threads';
import { createRing, RingReader, RingWriter } from '../../src/mailbox/ring.ts';
import { Parker, Waker } from '../../src/mailbox/wake.ts';

/**
 * The shard side of the two-thread tests: echoes every record of `requests` into `replies`, as a shard loop would: drain, answer,
 * publish once, park. A full reply ring makes it wait for space.
 */
export type FixtureData = { requests: SharedArrayBuffer; replies: SharedArrayBuffer; recordsMax: number };

export function createFixtureData(ringBytes: number, recordsMax: number): FixtureData {
  return { requests: createRing(ringBytes), replies: createRing(ringBytes), recordsMax };
}

/** Copies the reader's current record into the writer's ring; false when it is full. */
export function copyRecord(reader: RingReader, writer: RingWriter): boolean {
  const offset = writer.reserve(reader.length);
  if (offset < 0) return false;
  writer.bytes.set(reader.bytes.subarray(reader.offset, reader.offset + reader.length), offset);
  writer.commit(reader.length);
  return true;
}

async function echo(data: FixtureData): Promise<void> {
  const reader = new RingReader(data.requests);
  const writer = new RingWriter(data.replies);
  const waker = new Waker(data.replies);
  let held = false; // the reader's current record waits for space in the reply ring
  const parker = new Parker(reader, () => (held ? writer.reserve(reader.length) >= 0 : reader.hasNext()));
  for (;;) {
    for (let records = 0; records < data.recordsMax; records += 1) {
      if (!held && !reader.next()) break;
      held = !copyRecord(reader, writer);
      if (held) break;
    }
    if (writer.publish()) waker.wake();
    if (held) writer.requestSpace();
    else reader.release();
    await parker.park(Infinity);
  }
}

if (parentPort !== null && workerData !== null) {
  parentPort.on('message', () => process.exit(0));
  void echo(workerData as FixtureData);
}
