import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Slab } from '../../src/base/slab.ts';

test('pieces of any size have the right length and never share a byte', () => {
  const slab = new Slab();
  const pieces: Uint8Array[] = [];
  for (let i = 0; i < 2000; i++) {
    const piece = slab.take((i * 37) % 9000);
    assert.equal(piece.length, (i * 37) % 9000);
    piece.fill(i & 0xff);
    pieces.push(piece);
  }
  for (const [i, piece] of pieces.entries())
    assert.ok(
      piece.every((byte) => byte === (i & 0xff)),
      `piece ${i}`,
    );
});

test('small pieces share blocks, which grow to a bound; a large piece has its own memory', () => {
  const slab = new Slab();
  const blocks = new Set<ArrayBufferLike>();
  for (let i = 0; i < 1000; i++) blocks.add(slab.take(250).buffer);
  assert.ok(blocks.size <= 8, `${blocks.size} blocks for 250 KB`);
  for (const block of blocks) assert.ok(block.byteLength <= 64 * 1024);
  const large = slab.take(100_000);
  assert.equal(large.buffer.byteLength, 100_000);
});

test('a copy is independent of what it was copied from', () => {
  const slab = new Slab();
  const source = Uint8Array.of(1, 2, 3);
  const copy = slab.copy(source);
  source.fill(9);
  assert.deepEqual([...copy], [1, 2, 3]);
});
