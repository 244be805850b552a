// Offsets in answers that are written as bytes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatOffset, writeOffset } from '../../src/protocol/header-values.ts';

const MAX = Number.MAX_SAFE_INTEGER;

test('an offset is written into bytes as it is into text, whatever stood there', () => {
  const around = [1, 9, 10, 2 ** 31 - 1, 2 ** 31, 2 ** 31 * 10 - 1, 2 ** 31 * 10, 2 ** 32, MAX - 1, MAX];
  const values = [...around, ...Array.from({ length: 53 }, (_, bit) => 2 ** bit - 1), 7 ** 18, 0];
  const bytes = new Uint8Array(24).fill(120);
  for (const value of values) {
    writeOffset(bytes, 2, value);
    assert.equal(Buffer.from(bytes).toString(), `xx${formatOffset(value)}xx`);
  }
  for (const bad of [-1, 0.5, MAX + 1, NaN, Infinity]) {
    assert.throws(() => writeOffset(bytes, 2, bad), /not a byte position/);
  }
});
