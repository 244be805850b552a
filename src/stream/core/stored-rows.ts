/** Finds the stored row that holds an offset, or in which a record ends. The caller handles rows in memory. */
import { assert } from '../../base/assert.ts';
import type { Head } from './head.ts';
import { TAG_DATA, TAG_RECORD, lastPosition, positionKey } from './keys.ts';
import { START_ROW } from './row.ts';
import type { State } from './state.ts';

/** Start of the stored row that holds `offset`. */
export function storedRowStart(state: State, head: Head, offset: number): number {
  let start = -1;
  const from = positionKey(state.prefix, TAG_DATA, head.incarnation, 0);
  const to = positionKey(state.prefix, TAG_DATA, head.incarnation, offset + 1);
  state.tx.range(from, to, true, (key) => {
    start = lastPosition(key);
    return false;
  });
  assert(start >= 0, `a row holds offset ${offset} of incarnation ${head.incarnation}`);
  return start;
}

/**
 * Start of the stored row in which `record` ends: among rows with ends, the one with the greatest firstRecord at or
 * below it.
 */
export function storedRowOfRecord(state: State, head: Head, record: number): number {
  let start = -1;
  const from = positionKey(state.prefix, TAG_RECORD, head.incarnation, 0);
  const to = positionKey(state.prefix, TAG_RECORD, head.incarnation, record + 1);
  state.tx.range(from, to, true, (_key, value) => {
    ({ start } = START_ROW.decode(value));
    return false;
  });
  assert(start >= 0, `a row holds record ${record} of incarnation ${head.incarnation}`);
  return start;
}
