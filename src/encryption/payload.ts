/**
 * The payload of an age file, as https://age-encryption.org/v1 has it: chunks of 64 KiB by ChaCha20-Poly1305, each with
 * its number and whether it is the last in its nonce, so chunks can be read alone and none can be moved, left out or
 * cut off. By Node.js' own cipher: the one of `age-encryption` takes twenty times as long.
 */
import { Buffer } from 'node:buffer';
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';

export const CHUNK_BYTES = 64 * 1024;
export const TAG_BYTES = 16;
export const SEALED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES;
/** In front of the payload, behind the header. */
export const SALT_BYTES = 16;

const CIPHER = 'chacha20-poly1305';
const NONCE_BYTES = 12;
const COUNTER_AT = 7;
const LAST_AT = 11;
const KEY_BYTES = 32;

/** Whether a chunk is the last of its file. */
export type ChunkPlace = 'inner' | 'last';

/** Size of a payload that holds so many bytes. */
export function sealedSize(bytes: number): number {
  return bytes + TAG_BYTES * Math.max(1, Math.ceil(bytes / CHUNK_BYTES));
}

export class Payload {
  readonly #key: Uint8Array;

  /** `salt`: what lies between the header and the chunks. */
  constructor(fileKey: Uint8Array, salt: Uint8Array) {
    this.#key = new Uint8Array(hkdfSync('sha256', fileKey, salt, 'payload', KEY_BYTES));
  }

  /** Writes the sealed chunk into `target` at `at`; returns where it ends. */
  seal(
    chunk: { readonly index: number; readonly place: ChunkPlace },
    bytes: Uint8Array,
    target: Uint8Array,
    at: number,
  ) {
    const cipher = createCipheriv(CIPHER, this.#key, nonceOf(chunk.index, chunk.place), { authTagLength: TAG_BYTES });
    target.set(cipher.update(bytes), at);
    cipher.final();
    target.set(cipher.getAuthTag(), at + bytes.length);
    return at + bytes.length + TAG_BYTES;
  }

  /** Undefined: this is not that chunk of this file as it was written. */
  open(index: number, place: ChunkPlace, sealed: Uint8Array): Uint8Array | undefined {
    if (sealed.length < TAG_BYTES) return undefined;
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv(CIPHER, this.#key, nonceOf(index, place), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(sealed.subarray(end));
    const bytes = decipher.update(sealed.subarray(0, end));
    try {
      decipher.final();
    } catch {
      return undefined;
    }
    return bytes;
  }
}

/** The number in eleven bytes, of which four are enough for 256 TiB, and a byte that says that it is the last. */
function nonceOf(index: number, place: ChunkPlace): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeUInt32BE(index, COUNTER_AT);
  nonce[LAST_AT] = place === 'last' ? 1 : 0;
  return nonce;
}
