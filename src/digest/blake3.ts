/**
 * BLAKE3, synchronous. The native binary (some GiB/s on one core) comes as an optional package for each usual
 * platform; `blake3` itself, which needs no binary then, is for the others (a quarter of a GiB/s in WebAssembly).
 */
import { createRequire } from 'node:module';
import { encodeUtf8 } from '../base/utf8.ts';
import type * as NativePackage from '@napi-rs/blake-hash';

const require = createRequire(import.meta.url);

/** Size of a digest. */
export const DIGEST_BYTES = 32;

/** Takes bytes in pieces. */
export interface Hasher {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

export interface Blake3 {
  hash(bytes: Uint8Array): Uint8Array;
  createHash(): Hasher;
}

/** Throws where the platform has no binary. */
export function nativeBlake3(): Blake3 {
  const { Blake3Hasher, blake3 } = require('@napi-rs/blake-hash') as typeof NativePackage;
  return {
    hash: (bytes) => blake3(bytes),
    createHash: () => {
      const hasher = new Blake3Hasher();
      return { update: (bytes) => hasher.update(bytes), digest: () => hasher.digestBuffer() };
    },
  };
}

export function portableBlake3(): Blake3 {
  return require('blake3') as Blake3;
}

const implementation = load();

/** A new plain array: a Buffer's slice() would share memory. */
export function digestOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(implementation.hash(bytes));
}

export function createHasher(): Hasher {
  return implementation.createHash();
}

/** Identifies a published snapshot: BLAKE3 of the content type's size (8 bytes, little-endian), it, and the bytes. */
export function snapshotDigest(contentType: string, bytes: Uint8Array): Uint8Array {
  const type = encodeUtf8(contentType);
  const size = new Uint8Array(8);
  new DataView(size.buffer).setUint32(0, type.length, true);
  const hasher = createHasher();
  hasher.update(size);
  hasher.update(type);
  hasher.update(bytes);
  return new Uint8Array(hasher.digest());
}

/** Not in constant time: digests are no secrets here. */
export function sameDigest(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  for (let i = 0; i < left.length; i++) if (left[i] !== right[i]) return false;
  return true;
}

function load(): Blake3 {
  try {
    return nativeBlake3();
  } catch {
    return portableBlake3();
  }
}
