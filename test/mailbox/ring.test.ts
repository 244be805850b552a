import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTROL_BYTES, HEAD, recordBytes, TAIL } from '../../src/mailbox/layout.ts';
import {
  createRing,
  ringCapacityBytes,
  ringDepth,
  ringRecordBytesMax,
  ringUsedBytes,
  RingReader,
  RingWriter,
} from '../../src/mailbox/ring.ts';
import { randomFrom } from './fixture.ts';

const CAPACITY_BYTES = 64 * 1024;

function put(writer: RingWriter, sizeBytes: number, fill: number): boolean {
  const offset = writer.reserve(sizeBytes);
  if (offset < 0) return false;
  writer.bytes.fill(fill, offset, offset + sizeBytes);
  writer.commit(sizeBytes);
  return true;
}

test('a record comes out as it went in, and only after publish', () => {
  const sab = createRing(CAPACITY_BYTES);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  const offset = writer.reserve(100);
  writer.view.setFloat64(offset, 1.5, true);
  writer.commit(8);
  assert.equal(reader.next(), false, 'committed is not yet visible');
  assert.equal(ringDepth(sab), 0);
  assert.equal(writer.publish(), false, 'the reader is not parked');
  assert.equal(ringDepth(sab), 1);
  assert.equal(reader.depth, 1);
  assert.equal(ringUsedBytes(sab), 16);
  assert.equal(reader.hasNext(), true);
  assert.equal(reader.next(), true);
  assert.equal(reader.length, 8);
  assert.equal(reader.view.getFloat64(reader.offset, true), 1.5);
  assert.equal(reader.next(), false);
  assert.equal(ringUsedBytes(sab), 16, 'the space returns with release');
  assert.equal(reader.release(), false, 'the writer has not asked for space');
  assert.equal(ringUsedBytes(sab), 0);
  assert.equal(ringDepth(sab), 0);
  assert.equal(writer.usedBytes(), 0);
});

test('fills to the last byte: exact fit, then refusal, then space again', () => {
  const sab = createRing(CAPACITY_BYTES);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  const half = ringRecordBytesMax(CAPACITY_BYTES);
  assert.ok(put(writer, half, 1));
  assert.ok(put(writer, half, 2));
  assert.equal(writer.usedBytes(), CAPACITY_BYTES);
  assert.equal(writer.reserve(0), -1);
  writer.publish();
  assert.equal(ringUsedBytes(sab), CAPACITY_BYTES);
  assert.ok(reader.next());
  assert.equal(writer.reserve(0), -1, 'read is not given back');
  writer.requestSpace();
  assert.equal(reader.release(), true, 'the writer waits');
  assert.ok(put(writer, half, 3));
  writer.publish();
  assert.ok(reader.next() && reader.bytes[reader.offset] === 2);
  assert.ok(reader.next() && reader.bytes[reader.offset] === 3);
  assert.equal(reader.release(), false, 'told once');
});

test('the largest record fits into an empty ring at every position', () => {
  const sab = createRing(CAPACITY_BYTES);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  const half = ringRecordBytesMax(CAPACITY_BYTES);
  for (let round = 0; round < CAPACITY_BYTES / 8 + 5; round += 1) {
    for (const sizeBytes of [0, half]) {
      assert.ok(put(writer, sizeBytes, round & 255), `round ${round}`);
      writer.publish();
      assert.ok(reader.next());
      assert.equal(reader.length, sizeBytes);
      reader.release();
    }
  }
});

test('an abandoned or refused reservation leaves no trace', () => {
  const sab = createRing(CAPACITY_BYTES);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  writer.reserve(1000);
  assert.equal(writer.publish(), false);
  assert.equal(reader.next(), false);
  assert.equal(writer.usedBytes(), 0);
  assert.throws(() => writer.commit(1001), /larger than its reservation/);
  writer.commit(3);
  assert.throws(() => writer.commit(0), /larger than its reservation/);
  assert.throws(() => writer.reserve(ringRecordBytesMax(CAPACITY_BYTES) + 1), /half of the ring/);
  assert.throws(() => writer.reserve(-1), /half of the ring/);
  assert.throws(() => writer.reserve(Number.NaN), /half of the ring/);
});

test('capacity is a power of two within bounds', () => {
  for (const bad of [0, -65536, 1024, 65537, 96 * 1024, 128 * 1024 * 1024, Number.NaN, 2 ** 32]) {
    assert.throws(() => createRing(bad), /ring capacity/);
  }
  assert.throws(() => new RingReader(new SharedArrayBuffer(64 * 1024)), /ring capacity/);
  assert.equal(ringCapacityBytes(createRing(64 * 1024 * 1024)), 64 * 1024 * 1024);
});

test('a reader refuses a damaged record instead of running through the data', () => {
  const sab = createRing(CAPACITY_BYTES);
  const writer = new RingWriter(sab);
  put(writer, 8, 0);
  writer.publish();
  const damaged = new Int32Array(sab, CONTROL_BYTES);
  damaged[0] = CAPACITY_BYTES;
  assert.throws(() => new RingReader(sab).next(), /impossible size/);
  damaged[0] = 64;
  assert.throws(() => new RingReader(sab).next(), /beyond what was published/);
  new Int32Array(sab)[HEAD] = 8 + CAPACITY_BYTES;
  assert.throws(() => new RingReader(sab).next(), /out of order/);
});

/**
 * The model is an array of {size, fill} and the sum of what the bytes must cost. The cursors start just below 2^31 and
 * 2^32, so that the runs go over both the sign change and the wrap of the 32-bit counters.
 */
for (const [seed, startBytes] of [
  [1, 0],
  [2, 2 ** 31 - 4 * CAPACITY_BYTES],
  [3, 2 ** 32 - 4 * CAPACITY_BYTES],
  [4, 2 ** 32 - 8],
] as const) {
  test(`model: random operations agree with a plain queue (seed ${seed}, cursors from ${startBytes})`, () => {
    const sab = createRing(CAPACITY_BYTES);
    const control = new Int32Array(sab);
    control[HEAD] = startBytes | 0;
    control[TAIL] = startBytes | 0;
    runModel(sab, seed);
  });
}

function runModel(sab: SharedArrayBuffer, seed: number): void {
  const random = randomFrom(seed);
  const writer = new RingWriter(sab);
  const reader = new RingReader(sab);
  const committed: { sizeBytes: number; fill: number }[] = [];
  const published: { sizeBytes: number; fill: number }[] = [];
  const sizes = [0, 1, 4, 5, 300, 4096, ringRecordBytesMax(CAPACITY_BYTES)];
  let position = (new Int32Array(sab)[TAIL] as number) & (CAPACITY_BYTES - 1);
  let heldBytes = 0; // of the model: from the first byte not released to the last committed
  let unreleasedBytes = 0;
  let [refused, wrapped, moved] = [0, 0, 0];
  const costs: number[] = [];
  for (let step = 0; step < 60_000; step += 1) {
    const what = random(10);
    if (what < 4) {
      const pick = random(12);
      const sizeBytes = sizes[pick] ?? random(2000);
      const reservedBytes = Math.min(ringRecordBytesMax(CAPACITY_BYTES), sizeBytes + random(3) * 64);
      const toEndBytes = CAPACITY_BYTES - position;
      const skipBytes = recordBytes(reservedBytes) > toEndBytes ? toEndBytes : 0;
      const fits = heldBytes + skipBytes + recordBytes(reservedBytes) <= CAPACITY_BYTES;
      const offset = writer.reserve(reservedBytes);
      assert.equal(offset >= 0, fits, `step ${step}: reserve ${reservedBytes} with ${heldBytes} held`);
      if (!fits) {
        refused += 1;
        continue;
      }
      if (skipBytes > 0) wrapped += 1;
      const fill = random(256);
      writer.bytes.fill(fill, offset, offset + sizeBytes);
      writer.commit(sizeBytes);
      committed.push({ sizeBytes, fill });
      costs.push(skipBytes + recordBytes(sizeBytes));
      heldBytes += skipBytes + recordBytes(sizeBytes);
      position = (position + skipBytes + recordBytes(sizeBytes)) % CAPACITY_BYTES;
      assert.equal(writer.usedBytes(), heldBytes);
    } else if (what < 5) {
      writer.publish();
      published.push(...committed.splice(0));
    } else if (what < 8) {
      const expected = published.shift();
      assert.equal(reader.next(), expected !== undefined, `step ${step}: something to read`);
      if (expected === undefined) continue;
      moved += 1;
      assert.equal(reader.length, expected.sizeBytes);
      const record = reader.bytes.subarray(reader.offset, reader.offset + reader.length);
      assert.ok(
        record.every((byte) => byte === expected.fill),
        `step ${step}: contents`,
      );
      unreleasedBytes += costs.shift() as number;
      assert.equal(reader.depth, published.length);
    } else {
      reader.release();
      heldBytes -= unreleasedBytes;
      unreleasedBytes = 0;
    }
  }
  assert.ok(refused > 100 && wrapped > 50 && moved > 5000, `the run was dull: ${refused} ${wrapped} ${moved}`);
}
