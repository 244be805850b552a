/** Row source for reads (collect.ts) over memory and the store. */
import { ROW_MISSING, RowDamage, needRow, neededRow } from '../../base/row-damage.ts';
import type { Tx } from '../../base/tx.ts';
import type { RowSource } from './collect.ts';
import { Head } from './head.ts';
import { TAG, lastPosition, positionKey } from './keys.ts';
import type { RowView } from './row-view.ts';
import { START_ROW } from './row.ts';

/** Where to find the rows that are not in memory. */
interface Rows {
  readonly prefix: number;
  readonly tx: Tx;
}

const NO_HEAD = new Head(new Uint8Array(0), 0);

export class HotRows implements RowSource {
  readonly #rows: Rows;
  #head = NO_HEAD;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Points at this stream until the next call: one object serves all reads of a group. */
  of(head: Head): this {
    this.#head = head;
    return this;
  }

  get end(): number {
    return this.#head.tail;
  }

  viewAt(view: RowView, offset: number, start: number): void {
    const head = this.#head;
    for (let i = head.rows.length - 1; i >= 0; i--) {
      const row = head.rows[i];
      if (row === undefined || row.start > offset) continue;
      // The store may have rows between those in memory.
      if (offset >= row.end) break;
      view.ofRow(row);
      return;
    }
    if (start >= 0) this.#viewStored(view, start);
    else if (offset >= head.tailRowStart) this.#viewStored(view, head.tailRowStart);
    else this.#viewStored(view, offset === 0 ? 0 : this.#startOf(offset));
    if (offset >= view.stop) throw new RowDamage(this.#key(TAG.data, offset), ROW_MISSING);
  }

  /** Views the row in which `record` ends. */
  viewRecord(view: RowView, record: number): void {
    const head = this.#head;
    for (let i = head.rows.length - 1; i >= 0; i--) {
      const row = head.rows[i];
      // Rows inside one long record have no end of their own; the row with the end comes after them.
      if (row === undefined || row.firstRecord > record || record >= row.firstRecord + row.count) continue;
      view.ofRow(row);
      return;
    }
    this.#viewStored(view, this.#startOfRecord(record));
    needRow(
      record < view.firstRecord + view.count,
      this.#key(TAG.data, view.start),
      `record ${record} does not end in it`,
    );
  }

  #viewStored(view: RowView, start: number): void {
    view.ofValue(start, neededRow(this.#rows.tx, this.#key(TAG.data, start)));
  }

  /** Start of the stored row that holds `offset`. */
  #startOf(offset: number): number {
    const start = this.#last(TAG.data, offset, lastPosition);
    needRow(start >= 0, this.#key(TAG.data, offset), ROW_MISSING);
    return start;
  }

  /** Start of the stored row in which `record` ends: among rows with ends, the greatest firstRecord at or below it. */
  #startOfRecord(record: number): number {
    const start = this.#last(TAG.record, record, (_key, value) => START_ROW.decode(value).start);
    needRow(start >= 0, this.#key(TAG.record, record), ROW_MISSING);
    return start;
  }

  /** Reads a number from the last row of a kind up to `position`; -1: there is none. */
  #last(tag: number, position: number, read: (key: Uint8Array, value: Uint8Array) => number): number {
    let found = -1;
    this.#rows.tx.range(this.#key(tag, 0), this.#key(tag, position + 1), true, (key, value) => {
      found = read(key, value);
      return false;
    });
    return found;
  }

  #key(tag: number, position: number): Uint8Array {
    return positionKey(this.#rows.prefix, tag, this.#head.incarnation, position);
  }
}
