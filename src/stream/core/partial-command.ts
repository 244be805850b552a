/**
 * The large command whose pieces are being applied: at most one in a group, because its leader cuts one after the other.
 * It belongs to the term of its pieces: the leader that cut them is gone when a newer one begins, and so is the rest.
 *
 * A checkpoint that falls between two pieces writes what is there as rows:
 *  'B':              PARTIAL_ROW
 *  'B' part u32:     PART_BYTES of the command; the last one has the remainder
 */
import { ROW_MISSING, needRow } from '../../base/row-damage.ts';
import { assert } from '../../base/assert.ts';
import { ENTRY_BYTES_MAX, PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { planted } from '../../base/planted.ts';
import { f64, struct, u32, u8, zeros } from '../../base/struct.ts';
import type { Tx } from '../../base/tx.ts';
import type { CommandPiece } from '../../protocol/piece.ts';
import { TAG, partKey, taggedKey } from './keys.ts';

const FORMAT = 1;
/** The store adds a checksum to each row. */
const PART_BYTES = PAGE_VALUE_BYTES - 8;
/** @internal */
export const PARTIAL_ROW = struct({ format: u8, zeros: zeros(3), totalBytes: u32, term: f64, receivedBytes: u32 });
const NOTHING = new Uint8Array(0);

export class PartialCommand {
  readonly #prefix: number;
  #bytes = NOTHING;
  #receivedBytes = 0;
  #term = 0;
  /** Pages in the store, of this command or an earlier one; and bytes of this command in them. */
  #storedPages = 0;
  #storedBytes = 0;
  #isStored = false;

  constructor(prefix: number, tx: Tx) {
    this.#prefix = prefix;
    const row = tx.get(this.#headKey);
    if (row !== undefined) this.#load(tx, row);
  }

  /** Bytes of it so far; 0: there is none. */
  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Takes the next piece; returns the whole command with the last one. 'gap': it does not continue the pieces. */
  take({ totalBytes, offset, bytes }: CommandPiece, term: number): Uint8Array | 'gap' | undefined {
    if (offset === 0) this.#begin(totalBytes, term);
    const end = offset + bytes.length;
    const continues = offset === this.#receivedBytes && end <= totalBytes && totalBytes === this.#bytes.length;
    if (!continues) return 'gap';
    this.#bytes.set(bytes, planted('pieces-mixed-up') && end === totalBytes ? Math.max(0, offset - 1) : offset);
    this.#receivedBytes = end;
    if (end < totalBytes) return undefined;
    const whole = this.#bytes;
    this.drop();
    return whole;
  }

  /** Entries of `term` follow. */
  enter(term: number): void {
    if (term !== this.#term && !planted('partial-outlives-its-term')) this.drop();
  }

  drop(): void {
    this.#bytes = NOTHING;
    this.#receivedBytes = 0;
    this.#storedBytes = 0;
  }

  flush(tx: Tx): void {
    const received = planted('partial-not-stored') ? 0 : this.#receivedBytes;
    const pages = pagesOf(received);
    for (let part = Math.floor(this.#storedBytes / PART_BYTES); part < pages; part++) {
      const at = part * PART_BYTES;
      tx.put(partKey(this.#prefix, part), this.#bytes.subarray(at, Math.min(received, at + PART_BYTES)));
    }
    for (let part = pages; part < this.#storedPages; part++) tx.delete(partKey(this.#prefix, part));
    if (received > 0) {
      const row = { format: FORMAT, totalBytes: this.#bytes.length, term: this.#term, receivedBytes: received };
      tx.put(this.#headKey, PARTIAL_ROW.encode(row));
    } else if (this.#isStored) tx.delete(this.#headKey);
  }

  /** The commit of the last flush() is done. */
  flushed(): void {
    this.#storedPages = pagesOf(this.#receivedBytes);
    this.#storedBytes = this.#receivedBytes;
    this.#isStored = this.#receivedBytes > 0;
  }

  #begin(totalBytes: number, term: number): void {
    this.drop();
    assert(totalBytes <= ENTRY_BYTES_MAX, 'a command in pieces is no larger than one in an entry');
    this.#bytes = new Uint8Array(totalBytes);
    this.#term = term;
  }

  /** The next flush writes all of its pages again: another version may have made pages of another size. */
  #load(tx: Tx, row: Uint8Array): void {
    const { format, totalBytes, term, receivedBytes } = PARTIAL_ROW.decode(row);
    assert(format === FORMAT && totalBytes <= ENTRY_BYTES_MAX, 'known format of a partial command');
    this.#begin(totalBytes, term);
    this.#isStored = true;
    for (let page = tx.get(partKey(this.#prefix, 0)); page !== undefined;) {
      needRow(this.#receivedBytes + page.length <= receivedBytes, this.#headKey, 'its pages have more bytes');
      this.#bytes.set(page, this.#receivedBytes);
      this.#receivedBytes += page.length;
      page = tx.get(partKey(this.#prefix, ++this.#storedPages));
    }
    needRow(this.#receivedBytes === receivedBytes, partKey(this.#prefix, this.#storedPages), ROW_MISSING);
  }

  get #headKey(): Uint8Array {
    return taggedKey(this.#prefix, TAG.partial);
  }
}

function pagesOf(bytes: number): number {
  return Math.ceil(bytes / PART_BYTES);
}
