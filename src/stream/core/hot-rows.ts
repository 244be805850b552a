/** Row source for reads (collect.ts) over memory and the store. */
import { assert } from '../../base/assert.ts';
import type { RowSource } from './collect.ts';
import type { Head } from './head.ts';
import { TAG_DATA, positionKey } from './keys.ts';
import type { RowView } from './row-view.ts';
import type { State } from './state.ts';
import { storedRowOfRecord, storedRowStart } from './stored-rows.ts';

class HotRows implements RowSource {
  #state: State | undefined;
  #head: Head | undefined;

  /** Points at this stream until the next call: one object serves all reads. */
  of(state: State, head: Head): this {
    this.#state = state;
    this.#head = head;
    return this;
  }

  get end(): number {
    return (this.#head as Head).tail;
  }

  viewAt(view: RowView, offset: number, start: number): void {
    const head = this.#head as Head;
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
    else this.#viewStored(view, offset === 0 ? 0 : storedRowStart(this.#state as State, head, offset));
  }

  /** Views the row in which `record` ends. */
  viewRecord(view: RowView, record: number): void {
    const head = this.#head as Head;
    for (let i = head.rows.length - 1; i >= 0; i--) {
      const row = head.rows[i];
      // Rows inside one long record have no end of their own; the row with the end comes after them.
      if (row === undefined || row.firstRecord > record || record >= row.firstRecord + row.count) continue;
      view.ofRow(row);
      return;
    }
    this.#viewStored(view, storedRowOfRecord(this.#state as State, head, record));
    assert(record < view.firstRecord + view.count, `record ${record} ends in the row that the index names`);
  }

  #viewStored(view: RowView, start: number): void {
    const state = this.#state as State;
    const head = this.#head as Head;
    const value = state.tx.get(positionKey(state.prefix, TAG_DATA, head.incarnation, start));
    assert(value !== undefined, `data row ${start} of incarnation ${head.incarnation} is in the store`);
    view.ofValue(start, value);
  }
}

export const hotRows = new HotRows();
