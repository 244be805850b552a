import assert from 'node:assert/strict';
import { it } from 'node:test';
import {
  DIGEST_BYTES,
  createHasher,
  digestOf,
  nativeBlake3,
  portableBlake3,
  sameDigest,
} from '../../src/digest/blake3.ts';

/** From the test vectors of the BLAKE3 team: input byte i is i mod 251. */
const VECTORS: readonly (readonly [number, string])[] = [
  [0, 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262'],
  [1, '2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213'],
  [1024, '42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7'],
  [102400, 'bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085'],
];

const input = (bytes: number): Uint8Array => Uint8Array.from({ length: bytes }, (_, i) => i % 251);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

it('BLAKE3 gives the digests of its test vectors, in one piece and in several', () => {
  for (const [bytes, expected] of VECTORS) {
    const data = input(bytes);
    assert.equal(hex(digestOf(data)), expected, `${bytes} bytes`);
    const hasher = createHasher();
    for (let at = 0; at < data.length; at += 1000) hasher.update(data.subarray(at, at + 1000));
    assert.equal(hex(hasher.digest()), expected, `${bytes} bytes in pieces`);
  }
});

it('the package for platforms without a binary gives the same digests', () => {
  const [native, portable] = [nativeBlake3(), portableBlake3()];
  for (const bytes of [0, 1, 1023, 1024, 1025, 70_000]) {
    const data = input(bytes);
    const hasher = portable.createHash();
    for (let at = 0; at < data.length; at += 999) hasher.update(data.subarray(at, at + 999));
    assert.equal(hex(portable.hash(data)), hex(native.hash(data)), `${bytes} bytes`);
    assert.equal(hex(hasher.digest()), hex(native.hash(data)), `${bytes} bytes in pieces`);
  }
});

it('digests are compared byte by byte', () => {
  const left = digestOf(input(3));
  const right = left.slice();
  assert.equal(left.length, DIGEST_BYTES);
  assert.ok(sameDigest(left, right));
  right[DIGEST_BYTES - 1] = (right[DIGEST_BYTES - 1] as number) ^ 1;
  assert.ok(!sameDigest(left, right));
  assert.ok(!sameDigest(left, left.subarray(1)));
});
