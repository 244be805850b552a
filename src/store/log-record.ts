/**
 * Records of the log. Each begins at a page of its segment and is written and synced before the next one, so of all
 * records at most the last can be torn. A head says which record of which log it is, and a checksum covers head and
 * data: what an earlier use of the segment left, or another log, is told from what is meant.
 */
import { crc32c } from '@node-rs/crc32';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import { f64, struct, u32, u64 } from '../base/struct.ts';

/** Records begin and end at multiples of it: a write replaces whole pages and never reads one. */
export const LOG_PAGE_BYTES = 4096;
/** 'mill', and the version of the layout. */
const MAGIC = 0x6c6c_696d;
export const LOG_VERSION = 1;

export const RECORD_HEAD = struct(
  { check: u32, magic: u32, version: u32, dataBytes: u32, log: u64, sequence: f64 },
  'entries; zeros up to the end of the page',
);
const HEAD = RECORD_HEAD.fields;
/** The checksum covers what follows it. */
const CHECKED_FROM = HEAD.check.end;

export interface RecordHead {
  readonly sequence: number;
  readonly dataBytes: number;
}

export function pagesFor(dataBytes: number): number {
  return Math.ceil((RECORD_HEAD.size + dataBytes) / LOG_PAGE_BYTES) * LOG_PAGE_BYTES;
}

/**
 * Writes the head in front of the data that is already in `record`, and zeros behind it; returns the bytes to write.
 */
export function sealRecord(record: Uint8Array, view: DataView, log: bigint, head: RecordHead): Uint8Array {
  const end = RECORD_HEAD.size + head.dataBytes;
  const pages = record.subarray(0, pagesFor(head.dataBytes));
  pages.fill(0, end);
  HEAD.magic.set(view, 0, MAGIC);
  HEAD.version.set(view, 0, LOG_VERSION);
  HEAD.dataBytes.set(view, 0, head.dataBytes);
  HEAD.log.set(view, 0, log);
  HEAD.sequence.set(view, 0, head.sequence);
  HEAD.check.set(view, 0, crc32c(record.subarray(CHECKED_FROM, end)));
  return pages;
}

/** The record of `log` that begins at `at` of a segment; undefined: none does, or it is not whole. */
export function readRecord(segment: Uint8Array, at: number, log: bigint): RecordHead | undefined {
  if (at + RECORD_HEAD.size > segment.length) return undefined;
  const view = viewOf(segment);
  if (HEAD.magic.get(view, at) !== MAGIC || HEAD.version.get(view, at) !== LOG_VERSION) return undefined;
  if (HEAD.log.get(view, at) !== log) return undefined;
  const [sequence, dataBytes] = [HEAD.sequence.get(view, at), HEAD.dataBytes.get(view, at)];
  const end = at + RECORD_HEAD.size + dataBytes;
  if (end > segment.length || !Number.isSafeInteger(sequence) || sequence < 1) return undefined;
  const isWhole = crc32c(segment.subarray(at + CHECKED_FROM, end)) === HEAD.check.get(view, at);
  return isWhole || planted('log-checksum-ignored') ? { sequence, dataBytes } : undefined;
}
