import assert from 'node:assert/strict';
import { test } from 'node:test';
import { anonymousBytes, followHeapSize } from '../../src/server/heap-growth.ts';

const MIB = 1024 * 1024;

/** The garbage allowed after each look, when process and caches have so much. */
function followed(looks: readonly (readonly [processMib: number | undefined, cachedMib: number])[]): string[] {
  let again = (): void => undefined;
  let size = 'none';
  let [process, cached]: readonly [number | undefined, number] = [1, 0];
  followHeapSize({
    runtime: { setTimer: (_, run) => ((again = run), () => undefined) },
    processBytes: () => (process === undefined ? undefined : process * MIB),
    cachedBytes: () => cached * MIB,
    allow: (next) => void (size = next),
  });
  assert.equal(size, 'small', 'before the first look');
  return looks.map((look) => {
    [process, cached] = look;
    again();
    return size;
  });
}

test('a process counts as large above 384 MiB, and as small again below 256', () => {
  const seen = followed([100, 384, 385, 300, 257, 256, 300, 384, 500].map((mib) => [mib, 0]));
  assert.deepEqual(seen, ['small', 'small', 'large', 'large', 'large', 'small', 'small', 'small', 'large']);
});

test('caches are no heap, and a look that fails is not the last one', () => {
  // A node whose cold store was read.
  assert.deepEqual(followed([[546, 256]]), ['small']);
  const seen = followed([
    [500, 0],
    [undefined, 0],
    [500, 300],
  ]);
  assert.deepEqual(seen, ['large', 'large', 'small']);
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
