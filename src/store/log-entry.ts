/** The content of a record of the log: entries of groups, one after the other, and votes. */
import { crc32c } from '@node-rs/crc32';
import { viewOf } from '../base/bytes.ts';
import { f64, struct, u16, u32, u8, zeros } from '../base/struct.ts';
import { type RecordSpan, dataStart, pagesOf, readSpan } from './log-record.ts';

export const LOG_ENTRY = struct(
  { check: u32, dataBytes: u32, group: u16, kind: u8, copy: u8, zero: zeros(4), term: f64, index: f64 },
  'data; the next entry',
);
export const ENTRY_HEAD = LOG_ENTRY.fields;
/** Marks a vote, whose candidate is in `index`; raft's kinds are small. */
export const KIND_VOTE = 0xff;
/** The checksum covers what follows it. */
export const ENTRY_CHECKED_FROM = ENTRY_HEAD.check.end;

/** An entry or a vote as it is written. */
export interface LogItem {
  readonly group: number;
  readonly kind: number;
  readonly term: number;
  readonly index: number;
  readonly data: Uint8Array;
  /** It is written again, because the segment that holds it is to be freed. */
  readonly isCopy: boolean;
}

export function writeItem(bytes: Uint8Array, view: DataView, at: number, item: LogItem): void {
  const { group, kind, term, index, data, isCopy } = item;
  ENTRY_HEAD.dataBytes.set(view, at, data.length);
  ENTRY_HEAD.group.set(view, at, group);
  ENTRY_HEAD.kind.set(view, at, kind);
  ENTRY_HEAD.copy.set(view, at, isCopy ? 1 : 0);
  ENTRY_HEAD.zero.clear(view, at);
  ENTRY_HEAD.term.set(view, at, term);
  ENTRY_HEAD.index.set(view, at, index);
  bytes.set(data, at + LOG_ENTRY.size);
  ENTRY_HEAD.check.set(view, at, crc32c(bytes.subarray(at + ENTRY_CHECKED_FROM, at + LOG_ENTRY.size + data.length)));
}

/** The heads of the entries and votes in the data of a whole record, each with its place there. */
export function* entriesOf(
  data: Uint8Array,
): IterableIterator<ReturnType<typeof LOG_ENTRY.read> & { readonly at: number }> {
  const view = viewOf(data);
  for (let at = 0; at < data.length;) {
    const head = LOG_ENTRY.read(view, at);
    yield { ...head, at };
    at += LOG_ENTRY.size + head.dataBytes;
  }
}

/** The items at the start of a record that was not written to its end, without their data. */
export function wholeItems(segment: Uint8Array, record: RecordSpan): Omit<LogItem, 'data'>[] {
  const file = { read: (at: number, bytes: number) => segment.slice(at, at + bytes) };
  const start = dataStart(record);
  const bytes = Math.min(record.dataBytes, segment.length - start, pagesOf(record));
  const data = readSpan(file, record, start, bytes);
  const view = viewOf(data);
  const items = [];
  for (let at = 0; at + LOG_ENTRY.size <= bytes;) {
    const { check, dataBytes, group, kind, copy, term, index } = LOG_ENTRY.read(view, at);
    const end = at + LOG_ENTRY.size + dataBytes;
    if (end > bytes || crc32c(data.subarray(at + ENTRY_CHECKED_FROM, end)) !== check) break;
    items.push({ group, kind, term, index, isCopy: copy === 1 });
    at = end;
  }
  return items;
}
