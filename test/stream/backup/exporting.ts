// Rows of a replica as a backup holds them, and the rows that an import makes of them.
import assert from 'node:assert/strict';
import { Canonical } from '../../../src/stream/backup/canonical.ts';
import { BACKUP_TAGS } from '../../../src/stream/backup/rows.ts';
import { type Summary, Validator } from '../../../src/stream/backup/validate.ts';
import { prefixEnd, taggedKey } from '../../../src/stream/core/keys.ts';
import { GROUP, type Replica } from '../replica.ts';

export type Row = [Uint8Array, Uint8Array];

/** Validates rows and returns the rows that an import would write. Throws a Fault. */
export function validated(rows: readonly Row[]): { readonly summary: Summary; readonly all: readonly Row[] } {
  const all: Row[] = [];
  const validator = new Validator((key, value) => all.push([key.slice(), value.slice()]));
  for (const [key, value] of rows) validator.row(key, value);
  return { summary: validator.finish(), all };
}

/** The rows of a backup of what the replica has written to its store. */
export function exportOf(replica: Pick<Replica, 'tx'>): Row[] {
  const rows: Row[] = [];
  const canonical = new Canonical((key, value) => rows.push([key.slice(), value.slice()]));
  for (const tag of BACKUP_TAGS) {
    const start = taggedKey(GROUP, tag, new Uint8Array(0));
    replica.tx.range(start, prefixEnd(start), false, (key, value) => {
      canonical.row(key.slice(2), value.slice());
      return true;
    });
  }
  return rows;
}

/** In any state, with garbage and all: the export can be imported. */
export function checkBackup(replica: Replica, streams: number): void {
  replica.flush();
  const { summary } = validated(exportOf(replica));
  const { hotBytes, cold, nextIncarnation } = replica.state;
  assert.deepEqual([summary.hotBytes, summary.streams], [hotBytes, streams]);
  assert(summary.coldBytes <= cold.bytes && summary.objects <= cold.objects);
  assert(summary.nextIncarnation <= nextIncarnation);
}
