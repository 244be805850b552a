/**
 * Memory of the rows of a checkpoint. The shard, which reads them until they are on disk, and the thread that writes
 * them see the same bytes: no row is copied from one to the other. The blocks are used again, because fresh ones cost
 * zeroing, page faults and collections: a third of what a large body cost a shard.
 */
import type { Pending, RowMemory } from '../base/overlay.ts';

const BLOCK_BYTES_MIN = 64 * 1024;
const BLOCK_BYTES_MAX = 1024 * 1024;
/** Kept for the next checkpoint. One of a larger body allocates the rest. */
const KEPT_BYTES_MAX = 16 * 1024 * 1024;

/** Words of the index for a row: where its key is (block, position, bytes), and its value; see VALUE_BYTES. */
const WORDS = 6;
/** One more than the value has; 0: deleted. */
const VALUE_BYTES = 5;

/** Rows for another thread. */
export interface SentRows {
  readonly blocks: readonly ArrayBufferLike[];
  readonly index: Uint32Array;
}

export class SharedRows implements RowMemory {
  #blocks: SharedArrayBuffer[] = [];
  /** The block that is being filled, and its bytes in use. */
  #current = 0;
  #used = 0;

  copy(bytes: Uint8Array): Uint8Array {
    const block = this.#withRoom(bytes.length);
    const own = new Uint8Array(block, this.#used, bytes.length);
    own.set(bytes);
    this.#used += bytes.length;
    return own;
  }

  /** Memory that it holds. */
  get bytes(): number {
    return this.#blocks.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** The rows that were copied so far are used no more: their memory is written again. */
  clear(): void {
    this.#current = 0;
    this.#used = 0;
    let kept = 0;
    this.#blocks = this.#blocks.filter(({ byteLength }) => (kept += byteLength) <= KEPT_BYTES_MAX);
  }

  #withRoom(bytes: number): SharedArrayBuffer {
    for (let block = this.#blocks[this.#current]; block !== undefined; block = this.#blocks[++this.#current]) {
      if (this.#used + bytes <= block.byteLength) return block;
      this.#used = 0;
    }
    const last = this.#blocks.at(-1)?.byteLength ?? 0;
    const block = new SharedArrayBuffer(Math.max(bytes, BLOCK_BYTES_MIN, Math.min(2 * last, BLOCK_BYTES_MAX)));
    this.#blocks.push(block);
    return block;
  }
}

/** The rows to send: where each of them is. */
export function rowsToSend(changes: Iterable<Pending>): SentRows {
  const all = [...changes];
  const index = new Uint32Array(WORDS * all.length);
  const blocks: ArrayBufferLike[] = [];
  const places = new Map<ArrayBufferLike, number>();
  const placeOf = ({ buffer }: Uint8Array): number => {
    const known = places.get(buffer);
    if (known !== undefined) return known;
    places.set(buffer, blocks.length);
    return blocks.push(buffer) - 1;
  };
  let at = 0;
  for (const { key, value } of all) {
    index[at] = placeOf(key);
    index[at + 1] = key.byteOffset;
    index[at + 2] = key.length;
    if (value !== undefined) {
      index[at + 3] = placeOf(value);
      index[at + 4] = value.byteOffset;
      index[at + VALUE_BYTES] = value.length + 1;
    }
    at += WORDS;
  }
  return { blocks, index };
}

/** The rows that another thread sent. Their bytes are its own. */
export function* sentRows({ blocks, index }: SentRows): IterableIterator<Pending> {
  const bytesAt = (at: number, bytes: number): Uint8Array =>
    new Uint8Array(blocks[index[at] as number] as ArrayBufferLike, index[at + 1], bytes);
  for (let at = 0; at < index.length; at += WORDS) {
    const valueBytes = index[at + VALUE_BYTES] as number;
    yield {
      key: bytesAt(at, index[at + 2] as number),
      value: valueBytes === 0 ? undefined : bytesAt(at + 3, valueBytes - 1),
    };
  }
}
