/** The content of a record of the log: entries of groups, one after the other, and votes. */
import { crc32c } from '@node-rs/crc32';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import { f64, struct, u16, u32, u8, zeros } from '../base/struct.ts';
import type { Entry } from '../raft/types.ts';
import type { Stored } from './group-log.ts';
import { LogDamage } from './log-scan.ts';

export const LOG_ENTRY = struct(
  { check: u32, dataBytes: u32, group: u16, kind: u8, copy: u8, zero: zeros(4), term: f64, index: f64 },
  'data; the next entry',
);
export const ENTRY_HEAD = LOG_ENTRY.fields;
/** Marks a vote, whose candidate is in `index`; raft's kinds are small. */
export const KIND_VOTE = 0xff;
/** The checksum covers what follows it. */
const CHECKED_FROM = ENTRY_HEAD.check.end;

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
  ENTRY_HEAD.check.set(view, at, crc32c(bytes.subarray(at + CHECKED_FROM, at + LOG_ENTRY.size + data.length)));
}

/** Reads an entry back and compares it with what is known of it. */
export function readStored(group: number, { segment, at, term, kind, size }: Stored, index: number): Entry {
  const { file } = segment;
  const bytes = file.read(at, LOG_ENTRY.size + size);
  const head = LOG_ENTRY.read(viewOf(bytes), 0);
  const isIt =
    head.group === group &&
    head.kind === kind &&
    head.dataBytes === size &&
    head.term === term &&
    head.index === index &&
    head.check === crc32c(bytes.subarray(CHECKED_FROM));
  if (!isIt)
    throw new LogDamage(`entry ${index} of group ${group} at byte ${at} of ${file.name} is not what was written`);
  const dataAt = planted('entry-read-back-wrong') ? 0 : LOG_ENTRY.size;
  return { index, term, kind, data: bytes.subarray(dataAt, dataAt + size) };
}
