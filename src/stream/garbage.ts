/** Rows of removed streams: marked when a stream goes, deleted a few at a time by later flushes. */
import { TAG_ATTRIBUTES, TAG_DATA, TAG_GARBAGE, TAG_PRODUCER, TAG_RECORD, prefixEnd, taggedKey } from './keys.ts';
import type { Tx } from './tx.ts';

/** Rows deleted per flush; bounds the commit that does it. */
const RECLAIM_ROWS_MAX = 1024;
const RECLAIM_STREAMS_MAX = 128;
const NOTHING = new Uint8Array(0);

/**
 * Deletes some rows of dead incarnations; true when more are left. Invisible to readers, so it needs no command (replicas
 * may differ here).
 */
export function reclaim(tx: Tx, prefix: number): boolean {
  const marks = taggedKey(prefix, TAG_GARBAGE, NOTHING);
  const dead: Uint8Array[] = [];
  tx.range(marks, prefixEnd(marks), false, (key) => dead.push(key.slice(3)) < RECLAIM_STREAMS_MAX);
  let budget = RECLAIM_ROWS_MAX;
  for (const incarnation of dead) {
    for (const tag of [TAG_DATA, TAG_RECORD, TAG_PRODUCER, TAG_ATTRIBUTES]) {
      const rows = taggedKey(prefix, tag, incarnation);
      const doomed: Uint8Array[] = [];
      tx.range(rows, prefixEnd(rows), false, (key) => doomed.push(key.slice()) < budget);
      for (const key of doomed) tx.delete(key);
      budget -= doomed.length;
      if (budget <= 0) return true;
    }
    tx.delete(taggedKey(prefix, TAG_GARBAGE, incarnation));
  }
  return dead.length === RECLAIM_STREAMS_MAX;
}
