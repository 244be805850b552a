import assert from 'node:assert/strict';
import { test } from 'node:test';
import { anonymousBytes, heapSize } from '../../src/server/heap-growth.ts';

const MIB = 1024 * 1024;

test('a process counts as large above 384 MiB, and as small again below 256', () => {
  const sizes = [100, 384, 385, 300, 257, 256, 300, 384, 500].map((mib) => mib * MIB);
  let size: ReturnType<typeof heapSize> = 'small';
  const seen = sizes.map((bytes) => (size = heapSize(size, bytes)));
  assert.deepEqual(seen, ['small', 'small', 'large', 'large', 'large', 'small', 'small', 'small', 'large']);
});

test(
  'the memory of the process is read without what is mapped from files',
  { skip: process.platform !== 'linux' },
  () => {
    const before = anonymousBytes() ?? 0;
    assert(before > MIB && before < process.memoryUsage.rss(), `${before} bytes`);
    const block = Buffer.alloc(64 * MIB, 1);
    assert((anonymousBytes() ?? 0) >= before + 48 * MIB, `${block.length} bytes more are seen`);
  },
);
