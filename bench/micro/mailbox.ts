import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { assert } from '../../src/base/assert.ts';
import { createRing, RingReader, RingWriter } from '../../src/mailbox/ring.ts';
import { onReplies, Parker, Waker } from '../../src/mailbox/wake.ts';

/**
 * The cost of one crossing of the mailbox. `node dist/bench/micro/mailbox.js [--smoke]`; --smoke only proves that it still
 * runs.
 *
 *   one thread    reserve, copy 300 bytes, commit, next; publish and release every 100 records
 *   two threads   main -> worker -> main, 300 bytes each way, 2,000 and 100 under way
 *   wake-up       one record at a time, both sides sleep between
 */
const RECORD_BYTES = 300;
const RING_BYTES = 1024 * 1024;
/** 600 KiB under way. Without a bound both rings could fill, and the worker would need to wait for space. */
const WINDOW_RECORDS = 2000;
const smoke = process.argv.includes('--smoke');
const RECORDS = smoke ? 20_000 : 5_000_000;
const ROUNDS = smoke ? 500 : 50_000;

type Rings = { requests: SharedArrayBuffer; replies: SharedArrayBuffer };
const payload = new Uint8Array(RECORD_BYTES).fill(7);

function put(writer: RingWriter): boolean {
  const offset = writer.reserve(RECORD_BYTES);
  if (offset < 0) return false;
  writer.bytes.set(payload, offset);
  writer.commit(RECORD_BYTES);
  return true;
}

async function echo(rings: Rings): Promise<void> {
  const reader = new RingReader(rings.requests);
  const writer = new RingWriter(rings.replies);
  const waker = new Waker(rings.replies);
  const parker = new Parker(reader);
  for (;;) {
    // Never full: all that is under way fits into the reply ring, see WINDOW_RECORDS.
    while (reader.next()) assert(put(writer), 'reply ring is full');
    reader.release();
    if (writer.publish()) waker.wake();
    await parker.park(Infinity);
  }
}

function nowNs(): number {
  return Number(process.hrtime.bigint());
}

function oneThread(): void {
  const sab = createRing(RING_BYTES);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  const startNs = nowNs();
  let records = 0;
  while (records < RECORDS) {
    for (let batch = 0; batch < 100; batch += 1) put(writer);
    writer.publish();
    while (reader.next()) records += 1;
    reader.release();
  }
  console.log(`one thread: ${((nowNs() - startNs) / records).toFixed(0)} ns per record of ${RECORD_BYTES} bytes`);
}

/** Keeps up to `windowRecords` under way until `total` came back; answers the seconds it took. */
function roundTrips(rings: Rings, worker: Worker, total: number, windowRecords: number): Promise<number> {
  const writer = new RingWriter(rings.requests);
  const reader = new RingReader(rings.replies);
  const waker = new Waker(rings.requests);
  let [sent, received] = [0, 0];
  return new Promise((resolve, reject) => {
    worker.once('error', reject);
    const startNs = nowNs();
    const send = (): void => {
      while (sent < total && sent - received < windowRecords && put(writer)) sent += 1;
      if (writer.publish()) waker.wake();
    };
    const watch = onReplies(reader, () => {
      while (reader.next()) received += 1;
      reader.release();
      if (received < total) return send();
      watch.close();
      resolve((nowNs() - startNs) / 1e9);
    });
    send();
  });
}

async function main(): Promise<void> {
  console.log(`node ${process.version}, ${availableParallelism()} cores, ring ${RING_BYTES} bytes`);
  oneThread();
  const rings: Rings = { requests: createRing(RING_BYTES), replies: createRing(RING_BYTES) };
  const worker = new Worker(new URL(import.meta.url), { workerData: rings });
  await roundTrips(rings, worker, Math.min(RECORDS, 10_000), WINDOW_RECORDS); // warms up both sides
  for (const windowRecords of [WINDOW_RECORDS, 100]) {
    const seconds = await roundTrips(rings, worker, RECORDS, windowRecords);
    console.log(
      `two threads, ${windowRecords} under way: ${Math.round(RECORDS / seconds).toLocaleString('en')} records/s there and back`,
    );
  }
  const cpuStart = process.cpuUsage();
  const seconds = await roundTrips(rings, worker, ROUNDS, 1);
  const cpu = process.cpuUsage(cpuStart);
  const cpuUs = (cpu.user + cpu.system) / ROUNDS;
  console.log(
    `wake-up round trip: ${((seconds / ROUNDS) * 1e6).toFixed(1)} us, CPU of both threads ${cpuUs.toFixed(1)} us`,
  );
  await worker.terminate();
}

if (isMainThread) {
  await main();
} else {
  parentPort?.on('message', () => process.exit(0)); // a listener keeps the thread alive: a park does not
  void echo(workerData as Rings);
}
