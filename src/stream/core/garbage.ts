/**
 * Rows that nothing reads any more: rows of removed streams, and rows of live streams whose bytes moved to the cold
 * store or fell below the start offset. They are marked at that moment and deleted a few at a time by later flushes.
 *
 * A mark is empty (everything of the incarnation) or a GARBAGE_MARK (data rows and record entries below it).
 */
import { RowDamage } from '../../base/row-damage.ts';
import { PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { planted } from '../../base/planted.ts';
import { f64, struct } from '../../base/struct.ts';
import { TAG, positionKey, prefixEnd, readIncarnation, restOf, taggedKey } from './keys.ts';
import type { Tx } from '../../base/tx.ts';

/** Minimum number of rows deleted per flush when that many are garbage; adds about 10 ms to the commit. */
const RECLAIM_ROWS = 2048;
/**
 * Additional deletions per row's worth of bytes written. Bytes that move to the cold store free rows as fast as new
 * ones arrive (two each for JSON), and the backlog must shrink too.
 */
const RECLAIM_PER_ROW = 4;
/** Cost of examining one mark, in rows. */
const MARK_COST = 2;
export const GARBAGE_MARK = struct({ offset: f64, record: f64 });

export function garbageBelow(offset: number, record: number): Uint8Array {
  return GARBAGE_MARK.encode({ offset, record });
}

/**
 * Deletes some garbage rows; returns true when more are left. Readers cannot see it, so it needs no command and
 * replicas may differ here. `writtenBytes` is about what the same flush writes.
 */
export function reclaim(tx: Tx, prefix: number, writtenBytes: number): boolean {
  let budget = RECLAIM_ROWS + RECLAIM_PER_ROW * Math.ceil(writtenBytes / PAGE_VALUE_BYTES);
  const marksMax = Math.floor(budget / MARK_COST);
  const start = taggedKey(prefix, TAG.garbage);
  const marks: { readonly incarnation: Uint8Array; readonly below: Uint8Array }[] = [];
  try {
    tx.range(start, prefixEnd(start), false, (key, value) => {
      return marks.push({ incarnation: restOf(key).slice(), below: value.slice() }) < marksMax;
    });
  } catch (error) {
    // Garbage behind a damaged mark stays until the group is restored. Nothing that is used depends on it.
    if (!(error instanceof RowDamage)) throw error;
  }
  for (const { incarnation, below } of marks) {
    budget -= MARK_COST;
    for (const [from, to] of below.length === 0 ? allOf(prefix, incarnation) : lowerOf(prefix, incarnation, below)) {
      if (budget <= 0) return true;
      budget -= deleteRange(tx, from, to, planted('rows-stay') ? 1 : budget);
    }
    if (budget <= 0) return true;
    tx.delete(taggedKey(prefix, TAG.garbage, incarnation));
  }
  return marks.length === marksMax;
}

type Range = readonly [from: Uint8Array, to: Uint8Array];

function allOf(prefix: number, incarnation: Uint8Array): Range[] {
  const tags = [TAG.data, TAG.record, TAG.producer, TAG.attributes, TAG.snapshot];
  if (planted('snapshots-stay')) tags.pop();
  return tags.map((tag) => {
    const from = taggedKey(prefix, tag, incarnation);
    return [from, prefixEnd(from)];
  });
}

function lowerOf(prefix: number, incarnation: Uint8Array, below: Uint8Array): Range[] {
  const number = readIncarnation(incarnation);
  const { offset, record } = GARBAGE_MARK.decode(below);
  const range = (tag: number, to: number): Range => [
    positionKey(prefix, tag, number, 0),
    positionKey(prefix, tag, number, to),
  ];
  return [range(TAG.data, offset), range(TAG.record, record)];
}

/** Deletes up to `most` rows and returns their number. */
function deleteRange(tx: Tx, from: Uint8Array, to: Uint8Array, most: number): number {
  const keys: Uint8Array[] = [];
  tx.keys(from, to, (key) => keys.push(key.slice()) < most);
  for (const key of keys) tx.delete(key);
  return keys.length;
}
