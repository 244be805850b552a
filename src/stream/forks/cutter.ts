/**
 * Cuts the bytes that a fork inherits: complete messages or records of its source, from the start offset
 * to the requested branch point. In a byte stream the last message may be cut; in a JSON stream only
 * complete records are taken, and the sub-offset counts them.
 */
import type { ErrorCode } from '../../base/errors.ts';
import { planted } from '../../base/planted.ts';

/** Part of a read in parts (READ_FLAG_PARTS). */
export interface ReadParts {
  readonly ends: readonly number[];
  readonly bytes: Uint8Array;
}

export function decodeParts(body: Uint8Array): ReadParts {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const count = view.getUint32(0, true);
  const ends = Array.from({ length: count }, (_, i) => view.getUint32(4 + 4 * i, true));
  return { ends, bytes: body.subarray(4 + 4 * count) };
}

export interface Branch {
  readonly json: boolean;
  readonly anchor: number;
  readonly subOffset: number;
  /** Offset and ordinal at which the source begins. */
  readonly startOffset: number;
  readonly recordFirst: number;
}

export class Cutter {
  readonly #branch: Branch;
  /** Where the next piece begins. */
  at: number;
  record: number;
  done: boolean;
  /** Records after the anchor that are still to be taken. */
  #recordsLeft: number;

  constructor(branch: Branch) {
    this.#branch = branch;
    this.at = branch.startOffset;
    this.record = branch.recordFirst;
    this.#recordsLeft = branch.json ? branch.subOffset : 0;
    this.done = this.at === branch.anchor && branch.subOffset === 0;
  }

  /** The inherited part of the source's next parts; an error code when the fork is impossible. */
  take(parts: ReadParts): ReadParts | ErrorCode {
    const { ends, bytes } = parts;
    const { json, anchor } = this.#branch;
    // The source has no more, and more is needed.
    if (ends.length === 0) return this.at < anchor ? 'FORK_SOURCE_MOVED' : 'FORK_SUB_OFFSET_BEYOND';
    const base = this.at;
    const taken: number[] = [];
    for (const end of ends) {
      if (this.done) break;
      const cut = json ? this.#cutRecord(base + end) : this.#cutMessage(base + end);
      if (typeof cut === 'string') return cut;
      if (cut === this.at) break;
      taken.push(cut - base);
      this.at = cut;
      this.record++;
    }
    return { ends: taken, bytes: bytes.subarray(0, this.at - base) };
  }

  /** The new end of the record that ends at `end`. */
  #cutRecord(end: number): number | ErrorCode {
    const { anchor } = this.#branch;
    if (this.at < anchor) {
      if (end > anchor) return 'OFFSET_INSIDE_RECORD';
      this.done = end === anchor && this.#recordsLeft === 0;
      return end;
    }
    this.#recordsLeft--;
    this.done = this.#recordsLeft === 0;
    return end;
  }

  #cutMessage(end: number): number | ErrorCode {
    const { anchor, subOffset } = this.#branch;
    if (end < anchor || (end === anchor && subOffset > 0)) return end;
    this.done = true;
    const cut = planted('fork-cut-short') ? Math.max(this.at, anchor + subOffset - 1) : anchor + subOffset;
    return cut > end ? 'FORK_SUB_OFFSET_BEYOND' : cut;
  }
}
