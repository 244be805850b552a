import assert from 'node:assert/strict';

/** Compares bytes at once: `assert.deepEqual` takes seconds for some MiB. */
export function sameBytes(actual: Uint8Array | undefined, expected: Uint8Array, message = 'the bytes differ'): void {
  assert(actual !== undefined, message);
  assert.equal(actual.length, expected.length, message);
  const [one, other] = [actual, expected].map(({ buffer, byteOffset, length }) =>
    Buffer.from(buffer, byteOffset, length),
  );
  assert(one !== undefined && other !== undefined && one.equals(other), message);
}
