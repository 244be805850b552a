import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareText, readText, textBytes, writeText } from '../../src/base/text.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

/** One character from each length of UTF-8 and each side of its borders, a byte order mark and lone surrogates. */
const PIECES = [
  'a',
  '\0',
  '\x7f',
  '\x80',
  '\u07ff',
  '\u0800',
  '\ud7ff',
  '\ue000',
  '\ufeff',
  '\uffff',
  '\u{10000}',
  '\u{10FFFF}',
];
const LONE = ['\ud800', '\udfff'];

test('texts are written as TextEncoder writes them, and come back', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  for (let i = 0; i < 20_000; i++) {
    const pieces = random.chance(0.1) ? [...PIECES, ...LONE] : PIECES;
    const text = Array.from({ length: random.int(0, 12) }, () => random.pick(pieces)).join('');
    const expected = new TextEncoder().encode(text);
    const room = new Uint8Array(3 * text.length + 8).fill(0xee);
    const size = writeText(room, 4, text);
    assert.deepEqual([...room.subarray(4, 4 + size)], [...expected], `SEED=${seed}`);
    assert.equal(textBytes(text), size);
    assert.equal(room[3], 0xee);
    assert.equal(room[4 + size], 0xee);
    const shared = new Uint8Array(new SharedArrayBuffer(room.length));
    shared.set(room);
    assert.equal(readText(shared, 4, size), Buffer.from(text).toString());
  }
});

test('texts compare as their bytes do', () => {
  const random = createRandom(seedFromEnvironment());
  for (let i = 0; i < 20_000; i++) {
    const [a, b] = [0, 1].map(() => Array.from({ length: random.int(0, 4) }, () => random.pick(PIECES)).join(''));
    const expected = Buffer.compare(Buffer.from(a as string), Buffer.from(b as string));
    assert.equal(Math.sign(compareText(a as string, b as string)), expected);
  }
});
