import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../src/base/bytes.ts';
import {
  bytes,
  f64,
  f64OrNone,
  struct,
  text,
  u16,
  u16BE,
  u32,
  u32BE,
  u48BE,
  u64BE,
  u8,
  zeros,
} from '../../src/base/struct.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

const NUMBERS = { u8, u16, u32, f64, f64OrNone, u16BE, u32BE, u48BE, u64BE };
type Name = keyof typeof NUMBERS;
const NAMES = Object.keys(NUMBERS) as Name[];

/** The behaviour of a DataView, byte by byte where it has no method. */
const EXPECTED: Readonly<Record<Name, (view: DataView, at: number, value: number) => void>> = {
  u8: (view, at, value) => view.setUint8(at, value),
  u16: (view, at, value) => view.setUint16(at, value, true),
  u32: (view, at, value) => view.setUint32(at, value, true),
  f64: (view, at, value) => view.setFloat64(at, value, true),
  f64OrNone: (view, at, value) => view.setFloat64(at, value, true),
  u16BE: (view, at, value) => view.setUint16(at, value),
  u32BE: (view, at, value) => view.setUint32(at, value),
  u48BE: (view, at, value) => {
    for (let i = 5n; i >= 0n; i--) view.setUint8(at + Number(5n - i), Number((BigInt(value) >> (8n * i)) & 0xffn));
  },
  u64BE: (view, at, value) => view.setBigUint64(at, BigInt(value)),
};
const BYTES: Readonly<Record<Name, number>> = {
  ...{ u8: 1, u16: 2, u32: 4, f64: 8, f64OrNone: 8, u16BE: 2, u32BE: 4, u48BE: 6, u64BE: 8 },
};

test('records of random numbers are written as a DataView writes them, and come back', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  for (let round = 0; round < 2000; round++) {
    const names = Array.from({ length: random.int(1, 12) }, () => random.pick(NAMES));
    const record = struct(Object.fromEntries(names.map((name, i) => [`${name}-${i}`, NUMBERS[name]])));
    const at = random.int(0, 5);
    const room = new Uint8Array(at + record.size + 3).fill(0xee);
    const expected = room.slice();
    const values: Record<string, number> = {};
    let end = at;
    names.forEach((name, i) => {
      const bits = Math.min(53, 8 * BYTES[name]);
      const value = Math.floor(random.int(0, 0xffff_ffff) * 2 ** (bits - 32)) % 2 ** bits;
      values[`${name}-${i}`] = value;
      EXPECTED[name](viewOf(expected), end, value);
      end += BYTES[name];
    });
    record.write(viewOf(room), at, values);
    assert.deepEqual(room, expected, `SEED=${seed} ${names.join()}`);
    assert.equal(record.size, end - at);
    assert.deepEqual(record.read(viewOf(room), at), values);
    // One by one, into a view that is itself a part of a buffer.
    const alone = new Uint8Array(record.size + 9).subarray(7, 7 + record.size);
    for (const [name, field] of Object.entries(record.fields)) field.set(viewOf(alone), 0, values[name] ?? 0);
    assert.deepEqual([...alone], [...room.subarray(at, end)]);
    for (const [name, field] of Object.entries(record.fields)) assert.equal(field.get(viewOf(alone), 0), values[name]);
  }
});

test('a record has gaps, bytes, texts and what follows it', () => {
  const record = struct({ kind: u8, gap: zeros(3), digest: bytes(4), name: text(6), last: f64OrNone }, 'the rest');
  assert.equal(record.size, 22);
  assert.equal(record.rest, 'the rest');
  const values = { kind: 7, digest: new Uint8Array([1, 2, 3, 4]), name: 'abcdef', last: -1 };
  const encoded = record.encode(values, new Uint8Array([9, 9]));
  assert.deepEqual([...encoded.subarray(0, 14)], [7, 0, 0, 0, 1, 2, 3, 4, ...Buffer.from('abcdef')]);
  assert.deepEqual([...encoded.subarray(22)], [9, 9]);
  assert.deepEqual(record.decode(encoded), values);
  assert.deepEqual(
    Object.values(record.fields).map(({ at, end, kind }) => `${at}-${end} ${kind}`),
    ['0-1 u8', '1-4 zero', '4-8 4 bytes', '8-14 6 bytes of text', '14-22 f64'],
  );
  const dirty = new Uint8Array(record.size).fill(0xee);
  record.write(viewOf(dirty), 0, values);
  assert.deepEqual([...dirty.subarray(1, 4)], [0, 0, 0]);
});

test('a record that is cut short is an error, not a number', () => {
  const record = struct({ first: u32, second: f64 });
  assert.throws(() => record.decode(new Uint8Array(record.size - 1)), RangeError);
});
