/**
 * Objects as the cold tier writes and reads them: encrypted when there are keys and one of them is a recipient's. An
 * object says itself what it is, so those that were written before, or for another key, are read beside the others.
 * Digests and ranges are those of the bytes that are encrypted.
 */
import { AGE_BYTES, type Age, AgeError, HEADER_BYTES_MAX, type OpenedFile, isAge } from '../../encryption/age.ts';
import { CHUNK_BYTES, SALT_BYTES, SEALED_CHUNK_BYTES } from '../../encryption/payload.ts';
import { sealBytes } from '../../encryption/whole.ts';
import { type ObjectStore, type Parts, StoreError } from './store.ts';

/** The part of a store that tasks need for the bytes of objects. */
export type Objects = Pick<ObjectStore, 'put' | 'read'>;

/** A store, and how the bytes of its objects are written and read: by itself when there are no keys. */
export interface Reading {
  readonly store: ObjectStore;
  readonly objects: Objects;
}

/**
 * Why the bytes of an object differ from their digests: it is encrypted, and this node has no keys. Undefined as well
 * when the store cannot tell, because a reason that is less exact is no reason to fail more than the bytes did.
 */
export async function withoutKey({ store, objects }: Reading, key: string): Promise<string | undefined> {
  if (objects !== store) return undefined;
  try {
    if (!isAge(await store.readUpTo(key, 0, AGE_BYTES))) return undefined;
  } catch (error) {
    if (error instanceof StoreError) return undefined;
    throw error;
  }
  return `${key}: it is encrypted, and this node has no storage.cold.encryption_identity_file`;
}

/** The most that lies in front of the chunks. */
const FRONT_BYTES_MAX = HEADER_BYTES_MAX + SALT_BYTES;
/** A range that ends within so many chunks of its object is read with the header in one request. */
const TOGETHER_CHUNKS_MAX = 4;
/** Beginnings of objects that are kept, of some 200 bytes each. */
const KEPT_MAX = 4096;

/** Undefined: the object is not encrypted. */
type Front = OpenedFile | undefined;

export class SealedObjects implements Objects {
  readonly #store: ObjectStore;
  readonly #age: Age;
  /** The oldest first. One that fails is forgotten. */
  readonly #fronts = new Map<string, Promise<Front>>();

  constructor(store: ObjectStore, age: Age) {
    this.#store = store;
    this.#age = age;
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    await this.#store.put(key, this.#age.seals ? await sealBytes(this.#age, body) : body);
  }

  async read(key: string, offset: number, parts: Parts): Promise<void> {
    const chunksEnd = Math.ceil((offset + parts.length) / CHUNK_BYTES);
    const known = this.#fronts.get(key);
    if (known === undefined && chunksEnd <= TOGETHER_CHUNKS_MAX) {
      // Small objects are read once or never again; their beginnings would push out those of others.
      const bytesMax = FRONT_BYTES_MAX + chunksEnd * SEALED_CHUNK_BYTES;
      const start = await this.#store.readUpTo(key, 0, bytesMax);
      const front = await this.#opened(key, start);
      if (front !== undefined)
        decrypt(key, { offset, parts }, front, { first: 0, sealed: start.subarray(front.chunksAt) });
      else parts.add(key, start.subarray(offset, offset + parts.length));
      return parts.finish(key, offset);
    }
    const front = await (known ?? this.#front(key));
    if (front === undefined) return await this.#store.read(key, offset, parts);
    const first = Math.floor(offset / CHUNK_BYTES);
    const from = front.chunksAt + first * SEALED_CHUNK_BYTES;
    const sealed = await this.#store.readUpTo(key, from, (chunksEnd - first) * SEALED_CHUNK_BYTES);
    decrypt(key, { offset, parts }, front, { first, sealed });
    parts.finish(key, offset);
  }

  /** Callers share one request. */
  #front(key: string): Promise<Front> {
    const front = this.#store
      .readUpTo(key, 0, FRONT_BYTES_MAX)
      .then((start) => this.#opened(key, start))
      .catch((error: unknown) => {
        this.#fronts.delete(key);
        throw error;
      });
    this.#fronts.set(key, front);
    for (const oldest of this.#fronts.keys()) {
      if (this.#fronts.size <= KEPT_MAX) break;
      this.#fronts.delete(oldest);
    }
    return front;
  }

  async #opened(key: string, start: Uint8Array): Promise<Front> {
    if (!isAge(start)) return undefined;
    try {
      return await this.#age.open(start);
    } catch (error) {
      if (error instanceof AgeError) throw new StoreError('bad', `${key}: ${error.message}`);
      throw error;
    }
  }
}

interface Wanted {
  readonly offset: number;
  readonly parts: Parts;
}

interface Chunks {
  /** The number of the first. */
  readonly first: number;
  readonly sealed: Uint8Array;
}

/** Fills the parts as far as there are chunks. */
function decrypt(key: string, { offset, parts }: Wanted, { payload }: OpenedFile, { first, sealed }: Chunks): void {
  const end = offset + parts.length;
  for (let index = Math.floor(offset / CHUNK_BYTES), at; (at = index * CHUNK_BYTES) < end; index++) {
    const from = (index - first) * SEALED_CHUNK_BYTES;
    const chunk = sealed.subarray(from, from + SEALED_CHUNK_BYTES);
    if (chunk.length === 0) return;
    // A whole chunk may be the last.
    const inner = chunk.length === SEALED_CHUNK_BYTES ? payload.open(index, 'inner', chunk) : undefined;
    const bytes = inner ?? payload.open(index, 'last', chunk);
    if (bytes === undefined) {
      const place = `bytes ${at} to ${Math.min(at + CHUNK_BYTES, end)}`;
      throw new StoreError(
        'bad',
        `${key}: ${place} are not what was written (their chunk of age is altered or cut off)`,
      );
    }
    parts.add(key, bytes.subarray(Math.max(0, offset - at), Math.max(0, end - at)));
  }
}
