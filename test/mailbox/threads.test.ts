import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Worker } from 'node:worker_threads';
import {
  createTransferChannel,
  TransferReceiver,
  TransferSender,
  transferUsedBytes,
} from '../../src/mailbox/transfer-channel.ts';
import { ringDepth, RingReader, ringUsedBytes, RingWriter } from '../../src/mailbox/ring.ts';
import { onReplies, Waker } from '../../src/mailbox/wake.ts';
import { checkRecord, checksum, createFixtureData, fixtureChannels, putRecord, randomFrom } from './fixture.ts';
import type { FixtureData } from './fixture.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const RING_BYTES = 64 * 1024;
const RECORDS = IS_THOROUGH ? 1_000_000 : 150_000;
/** No reply for this long while requests are under way is a lost wake-up, however slow the machine. */
const STALL_MS = 30_000;

/**
 * Runs `total` records through the worker. `fill(sent)` puts record number `sent` into the writer or answers false
 * (full, or enough under way); `check(received)` looks at the reader's current record. Fails when the worker fails or
 * when nothing moves.
 */
async function pump(
  t: TestContext,
  data: FixtureData,
  total: number,
  fill: (writer: RingWriter, sent: number, received: number) => boolean,
  check: (reader: RingReader, received: number) => void,
): Promise<void> {
  const channels = data.channels;
  const worker = new Worker(new URL('./fixture.js', import.meta.url), {
    workerData: data,
    transferList: channels === undefined ? [] : [channels.in.port, channels.out.port],
  });
  t.after(() => worker.terminate());
  const writer = new RingWriter(data.requests);
  const reader = new RingReader(data.replies);
  const waker = new Waker(data.requests);
  let [sent, received] = [0, 0];
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject);
    const stalled = setInterval(() => {
      const depths = `${ringDepth(data.requests)} requests, ${ringDepth(data.replies)} replies in the rings`;
      reject(new Error(`stalled: ${sent} sent, ${received} received, ${depths}`));
    }, STALL_MS);
    t.after(() => clearInterval(stalled));
    const send = (): void => {
      while (sent < total && fill(writer, sent, received)) sent += 1;
      if (writer.publish()) waker.wake();
    };
    const watch = onReplies(reader, () => {
      try {
        for (; reader.next(); received += 1) check(reader, received);
        if (reader.release()) waker.interrupt();
      } catch (error) {
        reject(error as Error);
        return;
      }
      stalled.refresh();
      if (received < total) return send();
      watch.close();
      resolve();
    });
    send();
  });
  assert.equal(ringDepth(data.replies) + ringUsedBytes(data.replies), 0);
  worker.postMessage('end');
  assert.deepEqual(await once(worker, 'exit'), [0]);
}

test('records by the hundred thousand there and back through rings that are always full and wrapping', async (t) => {
  const random = randomFrom(7);
  const data = createFixtureData(RING_BYTES, 1000, 0);
  let refused = 0;
  const fill = (writer: RingWriter, sent: number): boolean => {
    const done = putRecord(writer, sent, 0, random(random(4) === 0 ? 700 : 60));
    if (!done) refused += 1;
    return done;
  };
  await pump(t, data, RECORDS, fill, checkRecord);
  assert.ok(refused > 100, 'the ring was never full: the test is dull');
});

test('records of half a ring: both sides wait for space all the time', async (t) => {
  const random = randomFrom(8);
  const data = createFixtureData(RING_BYTES, 3, 500);
  const fill = (writer: RingWriter, sent: number): boolean => putRecord(writer, sent, 0, random(RING_BYTES / 2 - 16));
  await pump(t, data, 5_000, fill, checkRecord);
});

test('no wake-up is lost: ping-pong with both sides sleeping and random work between', async (t) => {
  const random = randomFrom(9);
  const data = createFixtureData(RING_BYTES, 1, 3000);
  const fill = (writer: RingWriter, sent: number, received: number): boolean => {
    if (sent > received) return false;
    for (let steps = random(3000); steps > 0; steps -= 1) random(1);
    return putRecord(writer, sent, 0, 20);
  };
  await pump(t, data, 40_000, fill, checkRecord);
});

test('no wake-up is lost: random bursts, a worker that takes a few records per turn', async (t) => {
  const random = randomFrom(10);
  const data = createFixtureData(RING_BYTES, 3, 1000);
  let burstEnd = 1;
  const fill = (writer: RingWriter, sent: number, received: number): boolean => {
    if (sent === burstEnd) {
      if (received < burstEnd - 2) return false;
      burstEnd += 1 + random(8);
    }
    return putRecord(writer, sent, 0, random(200));
  };
  await pump(t, data, 60_000, fill, checkRecord);
});

test('a transfer is always there when its ring record is', async (t) => {
  const random = randomFrom(11);
  const [there, back] = [createTransferChannel(8 * 1024 * 1024), createTransferChannel(8 * 1024 * 1024)];
  const data = { ...createFixtureData(RING_BYTES, 50, 200), channels: fixtureChannels(there, back) };
  const sender = new TransferSender(there.sendPort, there.shared);
  const receiver = new TransferReceiver(back.receivePort, back.shared);
  t.after(() => {
    there.sendPort.close();
    back.receivePort.close();
  });
  const sums: number[] = [];
  let channelFull = 0;
  const fill = (writer: RingWriter, sent: number, received: number): boolean => {
    const big = random(3) > 0;
    if (!big) return putRecord(writer, sent, 0, random(100));
    const buffer = new ArrayBuffer(1 + random(random(50) === 0 ? 1024 * 1024 : 2000));
    // At most 4 MiB of buffers: what waits in the transfer channel there and back is below its bound, so that the
    // worker's send is never refused.
    if (sent - received > 300 || !sender.fits(4 * 1024 * 1024 + buffer.byteLength)) {
      channelFull += 1;
      return false;
    }
    if (writer.reserve(100) < 0) return false;
    const bytes = new Uint8Array(buffer).fill(sent & 255);
    sums[sent] = checksum(bytes, 0, Math.min(64, bytes.length)) + bytes.length;
    return putRecord(writer, sent, sender.send(buffer), 20);
  };
  const check = (reader: RingReader, received: number): void => {
    const transferId = checkRecord(reader, received);
    if (transferId === 0) return;
    const bytes = new Uint8Array(receiver.take(transferId));
    assert.equal(checksum(bytes, 0, Math.min(64, bytes.length)) + bytes.length, sums[received]);
  };
  await pump(t, data, 60_000, fill, check);
  assert.ok(channelFull > 0, 'the bound never mattered: the test is dull');
  assert.equal(transferUsedBytes(there.shared) + transferUsedBytes(back.shared), 0);
});
