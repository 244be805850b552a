/**
 * Records of the log. Each begins at a page of its segment and is written and synced before the next one, so of all
 * records at most the last can be torn. A head says which record of which log it is and has a checksum of its own;
 * another one covers the data.
 *
 * Every sector of a record ends in a stamp with the record's number, so a record that was written whole and changed
 * later is told from one whose write was cut off. Data lies there without gaps: what the stamps displace comes behind
 * it, so that sealing a record copies eight bytes for each sector, and nothing else.
 */
import { crc32c } from '@node-rs/crc32';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import { f64, struct, u32, u64 } from '../base/struct.ts';

/** Records begin and end at multiples of it: a write replaces whole pages and never reads one. */
export const LOG_PAGE_BYTES = 4096;
/** Disks write a sector whole or not at all. */
export const SECTOR_BYTES = 512;
/** 'mill', and the version of the layout. */
const MAGIC = 0x6c6c_696d;
export const LOG_VERSION = 2;

/** `next`: the log goes on at the start of that segment, which has so many bytes; 0: behind this record. */
export const RECORD_HEAD = struct(
  {
    ...{ check: u32, magic: u32, version: u32, dataBytes: u32, log: u64, sequence: f64 },
    ...{ dataCheck: u32, next: u32, nextBytes: u32 },
  },
  'entries; what stamps displaced; zeros up to the end of the page',
);
const HEAD = RECORD_HEAD.fields;
/** Version 1 had one checksum, of head and data, and no stamps. It is only read. */
export const RECORD_HEAD_1 = struct(
  { check: u32, magic: u32, version: u32, dataBytes: u32, log: u64, sequence: f64 },
  'entries; zeros up to the end of the page',
);
/** The checksums cover what follows them. */
const CHECKED_FROM = HEAD.check.end;

/** The last bytes of a sector: low halves of the log's identity and of the record's number; number 0: never written. */
export const SECTOR_STAMP = struct({ log: u32, sequence: u32 });
const STAMP = SECTOR_STAMP.fields;
const STAMP_BYTES = SECTOR_STAMP.size;
const STAMP_AT = SECTOR_BYTES - STAMP_BYTES;
/** Places for displaced bytes in a sector. */
const CELLS = STAMP_AT / STAMP_BYTES;

/** A sentence for the operator: which record of which file. */
export class LogDamage extends Error {}

/** A segment, and the size with which it was made. */
export interface SegmentNote {
  /** The number in its name. */
  readonly segment: number;
  readonly bytes: number;
}

export interface RecordHead {
  readonly version: number;
  readonly sequence: number;
  readonly dataBytes: number;
  /** Undefined: the next record is behind this one. */
  readonly next: SegmentNote | undefined;
}

/** Where a record lies in its segment. */
export interface RecordSpan extends Pick<RecordHead, 'version' | 'dataBytes'> {
  readonly at: number;
}

export const dataStart = ({ version, at }: RecordSpan): number =>
  at + (version === 1 ? RECORD_HEAD_1.size : RECORD_HEAD.size);

/** The number of stamps that lie before `end` of a record. */
const stampsBefore = (end: number): number =>
  Math.floor((Math.ceil(end / STAMP_BYTES) * STAMP_BYTES + STAMP_BYTES - 1) / SECTOR_BYTES);

/** Where the i-th displaced bytes of a record are that ends at `end`. */
function displacedAt(end: number, i: number): number {
  const aligned = Math.ceil(end / STAMP_BYTES);
  const perSector = SECTOR_BYTES / STAMP_BYTES;
  const cell = Math.floor(aligned / perSector) * CELLS + Math.min(aligned % perSector, CELLS) + i;
  return Math.floor(cell / CELLS) * SECTOR_BYTES + (cell % CELLS) * STAMP_BYTES;
}

/** Bytes on disk of a record with so much data. */
export function pagesFor(dataBytes: number): number {
  const end = RECORD_HEAD.size + dataBytes;
  const stamps = stampsBefore(end);
  return toPages(stamps === 0 ? end : displacedAt(end, stamps - 1) + STAMP_BYTES);
}

export const pagesOf = ({ version, dataBytes }: Pick<RecordHead, 'version' | 'dataBytes'>): number =>
  version === 1 ? toPages(RECORD_HEAD_1.size + dataBytes) : pagesFor(dataBytes);

export const toPages = (bytes: number): number => Math.ceil(bytes / LOG_PAGE_BYTES) * LOG_PAGE_BYTES;

/**
 * Writes the head in front of the data that is already in `record`, and stamps all its sectors; returns the bytes to
 * write. A record without data has its head in every sector, so that one changed sector does not hide it.
 */
export function sealRecord(
  record: Uint8Array,
  view: DataView,
  log: bigint,
  { sequence, dataBytes, next }: Omit<RecordHead, 'version'>,
): Uint8Array {
  const end = RECORD_HEAD.size + dataBytes;
  const pages = record.subarray(0, pagesFor(dataBytes));
  pages.fill(0, end);
  HEAD.magic.set(view, 0, MAGIC);
  HEAD.version.set(view, 0, LOG_VERSION);
  HEAD.dataBytes.set(view, 0, dataBytes);
  HEAD.log.set(view, 0, log);
  HEAD.sequence.set(view, 0, sequence);
  HEAD.dataCheck.set(view, 0, crc32c(record.subarray(RECORD_HEAD.size, end)));
  HEAD.next.set(view, 0, next?.segment ?? 0);
  HEAD.nextBytes.set(view, 0, next?.bytes ?? 0);
  HEAD.check.set(view, 0, crc32c(record.subarray(CHECKED_FROM, RECORD_HEAD.size)));
  if (dataBytes === 0)
    for (let at = SECTOR_BYTES; at < pages.length; at += SECTOR_BYTES) pages.copyWithin(at, 0, RECORD_HEAD.size);
  const stamps = stampsBefore(end);
  for (let i = 0; i < stamps; i++) {
    const from = i * SECTOR_BYTES + STAMP_AT;
    const to = displacedAt(end, i);
    view.setUint32(to, view.getUint32(from));
    view.setUint32(to + 4, view.getUint32(from + 4));
  }
  stamp(pages, view, log, sequence);
  return pages;
}

function stamp(bytes: Uint8Array, view: DataView, log: bigint, sequence: number): void {
  const low = Number(log & 0xffff_ffffn);
  const number = sequence % 2 ** 32;
  for (let at = STAMP_AT; at < bytes.length; at += SECTOR_BYTES) {
    STAMP.log.set(view, at, low);
    STAMP.sequence.set(view, at, number);
  }
}

/** A segment is filled with it before its first use. */
export function freshBytes(log: bigint, bytes: number): Uint8Array {
  const fresh = new Uint8Array(bytes);
  stamp(fresh, viewOf(fresh), log, 0);
  return fresh;
}

/** The stamp of the sector at `at`: of this record, of the one behind it, of another of this log, or none. */
export function stampOf(view: DataView, at: number, log: bigint, sequence: number): 'own' | 'later' | 'older' | 'none' {
  if (STAMP.log.get(view, at + STAMP_AT) !== Number(log & 0xffff_ffffn)) return 'none';
  const found = STAMP.sequence.get(view, at + STAMP_AT);
  if (found === sequence % 2 ** 32) return 'own';
  return found === (sequence + 1) % 2 ** 32 ? 'later' : 'older';
}

/** The head of a record of `log` at `at` of a segment; undefined: there is none, or it is not whole. */
export function readHead(segment: Uint8Array, at: number, log: bigint): RecordHead | undefined {
  const head = headAt(segment, at, log);
  if (head !== undefined) return head;
  for (let copy = at + SECTOR_BYTES; copy < at + LOG_PAGE_BYTES; copy += SECTOR_BYTES) {
    const found = headAt(segment, copy, log);
    if (found?.dataBytes === 0 && found.version === LOG_VERSION) return found;
  }
  return undefined;
}

function headAt(segment: Uint8Array, at: number, log: bigint): RecordHead | undefined {
  if (at + RECORD_HEAD.size > segment.length) return undefined;
  const view = viewOf(segment);
  if (HEAD.magic.get(view, at) !== MAGIC || HEAD.log.get(view, at) !== log) return undefined;
  const [version, sequence] = [HEAD.version.get(view, at), HEAD.sequence.get(view, at)];
  const dataBytes = HEAD.dataBytes.get(view, at);
  if (!Number.isSafeInteger(sequence) || sequence < 1) return undefined;
  if (version === 1) return { version, sequence, dataBytes, next: undefined };
  const isWhole = crc32c(segment.subarray(at + CHECKED_FROM, at + RECORD_HEAD.size)) === HEAD.check.get(view, at);
  if (version !== LOG_VERSION || !isWhole) return undefined;
  const next = { segment: HEAD.next.get(view, at), bytes: HEAD.nextBytes.get(view, at) };
  return { version, sequence, dataBytes, next: next.segment === 0 ? undefined : next };
}

/** Whether all of the record whose head is at `at` is there. A head of version 1 says nothing before that. */
export function isWhole(segment: Uint8Array, at: number, head: RecordHead): boolean {
  const { version, dataBytes } = head;
  if (at + pagesOf(head) > segment.length) return false;
  if (version !== 1 && dataBytes === 0) return true;
  const view = viewOf(segment);
  const check = version === 1 ? HEAD.check.get(view, at) : HEAD.dataCheck.get(view, at);
  const data = (): Uint8Array =>
    version === 1
      ? segment.subarray(at + CHECKED_FROM, at + RECORD_HEAD_1.size + dataBytes)
      : readSpan(
          { read: (from, bytes) => segment.slice(from, from + bytes) },
          { ...head, at },
          at + RECORD_HEAD.size,
          dataBytes,
        );
  return crc32c(data()) === check || planted('log-checksum-ignored');
}

/** `bytes` of the data of a record from `at` of its segment on, without the stamps. What read() returns is changed. */
export function readSpan(
  file: { read(at: number, bytes: number): Uint8Array },
  record: RecordSpan,
  at: number,
  bytes: number,
): Uint8Array {
  const span = file.read(at, bytes);
  if (record.version === 1) return span;
  const from = at - record.at;
  const first = Math.floor(from / SECTOR_BYTES);
  const last = Math.ceil((from + bytes - STAMP_AT) / SECTOR_BYTES) - 1;
  if (last < first) return span;
  const end = RECORD_HEAD.size + record.dataBytes;
  const start = displacedAt(end, first);
  const displaced = file.read(record.at + start, displacedAt(end, last) + STAMP_BYTES - start);
  for (let i = first; i <= last; i++) {
    const to = i * SECTOR_BYTES + STAMP_AT - from;
    const source = displacedAt(end, i) - start;
    const skipped = Math.max(0, -to);
    const taken = Math.min(STAMP_BYTES, span.length - to);
    span.set(displaced.subarray(source + skipped, source + taken), to + skipped);
  }
  return span;
}
