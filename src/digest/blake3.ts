/**
 * BLAKE3, native where its binary was installed (6 GiB/s), else WebAssembly (1 GiB/s): npm leaves the binary out with
 * `--ignore-scripts` and on rare platforms. Loaded at the first import; hashing itself is synchronous.
 */

/** Size of a digest. */
export const DIGEST_BYTES = 32;

/** Takes bytes in pieces. */
export interface Hasher {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

interface Blake3 {
  hash(bytes: Uint8Array): Uint8Array;
  createHash(): Hasher;
}

const blake3 = await load();

/** A new plain array: a Buffer's slice() would share memory. */
export function digestOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(blake3.hash(bytes));
}

export function createHasher(): Hasher {
  return blake3.createHash();
}

/** Of two digests; there is no secret to protect here. */
export function sameDigest(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false;
  for (let i = 0; i < left.length; i++) if (left[i] !== right[i]) return false;
  return true;
}

async function load(): Promise<Blake3> {
  try {
    // Held in variables: the native package's types are absent where its binary is.
    const native: string = 'blake3';
    return (await import(native)) as Blake3;
  } catch {
    const wasm: string = 'blake3-wasm';
    const module = (await import(wasm)) as Blake3 & { load(): Promise<void> };
    await module.load();
    return module;
  }
}
