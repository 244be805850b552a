/**
 * Rows of versions before format 4 have no checksums. They move into the table of those that have, some MiB in one
 * commit, before anything else reads the state. A start that ends in between goes on with what is left.
 */
import type { Environment } from './environment.ts';
import { CheckedRows } from './row-check.ts';

/** Bytes of one commit: large against its flush, small against the memory of a node. */
const COMMIT_BYTES = 4 * 1024 * 1024;

/** Names the rows that it moved, if there were any. */
export function convertRows(environment: Environment): { readonly checkedRows?: number } {
  const { unchecked, state } = environment;
  const rows = new CheckedRows(state);
  let moved = 0;
  for (;;) {
    const batch = firstOf(unchecked);
    if (batch.length === 0) return moved === 0 ? {} : { checkedRows: moved };
    environment.commit(() => {
      for (const { key, value } of batch) {
        rows.put(key, value);
        unchecked.removeSync(key);
      }
    });
    environment.refresh();
    moved += batch.length;
  }
}

interface Row {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

function firstOf(table: Environment['unchecked']): Row[] {
  const rows: Row[] = [];
  let bytes = 0;
  for (const row of table.getRange({})) {
    rows.push(row);
    bytes += row.key.length + row.value.length;
    if (bytes >= COMMIT_BYTES) break;
  }
  return rows;
}
