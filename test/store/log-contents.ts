// The segment files of a shard's log, read without the store.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { viewOf } from '../../src/base/bytes.ts';
import { entriesOf } from '../../src/store/log-entry.ts';
import {
  LOG_PAGE_BYTES,
  RECORD_HEAD,
  dataStart,
  isWhole,
  pagesOf,
  readHead,
  readSpan,
} from '../../src/store/log-record.ts';
import type { Covered } from '../../src/store/log-scan.ts';
import { OWN_TAG, decodeLog, systemKey } from '../../src/store/rows.ts';
import type { Tx } from '../../src/base/tx.ts';

export interface FoundItem {
  readonly group: number;
  readonly kind: number;
  readonly term: number;
  readonly index: number;
  readonly isCopy: boolean;
}

export interface FoundRecord {
  readonly name: string;
  readonly path: string;
  readonly at: number;
  /** With its head and up to the end of its last page. */
  readonly bytes: number;
  readonly dataBytes: number;
  readonly sequence: number;
  readonly items: readonly FoundItem[];
}

/** All whole records in the files of a log folder, also those that are no longer needed; by sequence. */
export function recordsIn(folder: string): FoundRecord[] {
  const names = readdirSync(folder).filter((name) => /^segment-\d+$/.test(name));
  return names.flatMap((name) => recordsOf(folder, name)).sort((a, b) => a.sequence - b.sequence);
}

function recordsOf(folder: string, name: string): FoundRecord[] {
  const path = join(folder, name);
  const content = new Uint8Array(readFileSync(path));
  const view = viewOf(content);
  const found: FoundRecord[] = [];
  for (let at = 0; at + RECORD_HEAD.size <= content.length;) {
    // Whatever log it says: each test has one.
    const record = readHead(content, at, RECORD_HEAD.fields.log.get(view, at));
    if (record === undefined || !isWhole(content, at, record)) {
      at += LOG_PAGE_BYTES;
      continue;
    }
    const bytes = pagesOf(record);
    const file = { read: (from: number, size: number) => content.slice(from, from + size) };
    const data = readSpan(file, { ...record, at }, dataStart({ ...record, at }), record.dataBytes);
    found.push({ ...record, name, path, at, bytes, items: itemsOf(data) });
    at += bytes;
  }
  return found;
}

function itemsOf(data: Uint8Array): FoundItem[] {
  return Array.from(entriesOf(data), ({ group, kind, term, index, copy }) => ({
    ...{ group, kind, term, index },
    isCopy: copy === 1,
  }));
}

/** Which log belongs to the state, and what of it the last checkpoint covers. */
export function coveredBy(tx: Tx): Covered {
  const row = tx.get(systemKey(OWN_TAG.log, 0));
  const covered = row === undefined ? undefined : decodeLog(row);
  if (covered === undefined) throw new Error('a checkpoint says what is covered');
  return covered;
}

/** Records with something in them that the last checkpoint does not make free. */
export function neededRecords(tx: Tx, folder: string): FoundRecord[] {
  const { oldest } = coveredBy(tx);
  return recordsIn(folder).filter(({ sequence, dataBytes }) => sequence >= oldest && dataBytes > 0);
}
