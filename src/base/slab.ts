/**
 * Memory for many small byte arrays of similar lifetime, cut from larger blocks: a separate ArrayBuffer for each costs
 * a malloc, a free and garbage collector bookkeeping (measured in a cluster under load: a quarter of all CPU time).
 *
 * A block is freed when none of its pieces is in use. So use one slab per kind of data that is released roughly in
 * order (one group's log), or a single old piece would hold the memory of many others.
 */
const FIRST_BLOCK_BYTES = 4 * 1024;
const BLOCK_BYTES_MAX = 64 * 1024;
/** A larger piece gets its own memory: it would waste the rest of a block, and malloc is cheap beside the copy. */
const PIECE_BYTES_MAX = 8 * 1024;
const ALIGNMENT = 8;

export class Slab {
  #block = new ArrayBuffer(0);
  #used = 0;
  #nextBytes = FIRST_BLOCK_BYTES;

  /** Bytes not shared with any other owner; their content is undefined. */
  take(sizeBytes: number): Uint8Array {
    if (sizeBytes > PIECE_BYTES_MAX) return new Uint8Array(sizeBytes);
    if (this.#used + sizeBytes > this.#block.byteLength) {
      // Grows with use: most groups of an idle node never need a large block.
      this.#block = new ArrayBuffer(Math.max(this.#nextBytes, sizeBytes));
      this.#nextBytes = Math.min(2 * this.#nextBytes, BLOCK_BYTES_MAX);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used = (at + sizeBytes + ALIGNMENT - 1) & -ALIGNMENT;
    return new Uint8Array(this.#block, at, sizeBytes);
  }

  copy(bytes: Uint8Array): Uint8Array {
    const own = this.take(bytes.length);
    own.set(bytes);
    return own;
  }
}
