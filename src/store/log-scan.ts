/**
 * Finds the end of a log after any stop. A record is written only after the one before it was synced, so
 * an invalid one behind which a valid one lies was on disk once: that is damage, not a torn write.
 * Invalid records behind all valid ones are the torn end.
 */
import { caughtMessage } from '../base/caught.ts';
import { ENTRY_BYTES_MAX, UNCOMMITTED_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { LOG_PAGE_BYTES, pagesFor, readRecord } from './log-record.ts';

/**
 * The largest entry has a segment of its own. The first release put all that waited for an election into one
 * entry, and such an entry may have come here from an LMDB log.
 */
const SEGMENT_BYTES_MAX = UNCOMMITTED_BYTES_MAX + ENTRY_BYTES_MAX;

/** A segment's bytes, as the scan reads them. */
export interface Scanned {
  readonly name: string;
  readonly bytes: number;
  read(at: number, bytes: number): Uint8Array;
}

/** The part of the log that a checkpoint makes unnecessary. */
export interface Covered {
  readonly log: bigint;
  /** The first record that is still needed. */
  readonly oldest: number;
  /** The last one when the checkpoint was written. */
  readonly last: number;
}

export interface RecordPlace<S> {
  readonly segment: S;
  readonly at: number;
  readonly sequence: number;
  readonly dataBytes: number;
}

/** A sentence for the operator: which record of which file. */
export class LogDamage extends Error {}

/** The records from the oldest that is needed to the last, in order. Throws LogDamage when one of them is missing. */
export function scanLog<S extends Scanned>(segments: readonly S[], covered: Covered): RecordPlace<S>[] {
  if (segments.length === 0) throw new LogDamage('the log has no segment files');
  const found = segments.flatMap((segment) => recordsOf(segment, covered.log));
  found.sort((a, b) => a.sequence - b.sequence);
  const needed = found.filter(({ sequence }) => sequence >= covered.oldest);
  let expected = covered.oldest;
  let before = found.findLast(({ sequence }) => sequence < covered.oldest);
  for (const place of needed) {
    if (place.sequence < expected)
      throw new LogDamage(`${place.segment.name} holds record ${place.sequence} a second time`);
    if (place.sequence !== expected) throw new LogDamage(missing(expected, before, place));
    before = place;
    expected++;
  }
  if (expected <= covered.last) {
    throw new LogDamage(`${missing(expected, before)}; a checkpoint covers the log up to record ${covered.last}`);
  }
  return needed;
}

function recordsOf<S extends Scanned>(segment: S, log: bigint): RecordPlace<S>[] {
  const found: RecordPlace<S>[] = [];
  const content = contentOf(segment);
  for (let at = 0; at < content.length;) {
    const record = readRecord(content, at, log);
    // A segment is used again from its start: older records may follow the newest one.
    if (record !== undefined) {
      const last = found.at(-1);
      const sequence =
        planted('log-sequence-ignored') && last !== undefined && record.sequence < last.sequence
          ? last.sequence + 1
          : record.sequence;
      found.push({ ...record, sequence, segment, at });
    }
    at += record === undefined ? LOG_PAGE_BYTES : pagesFor(record.dataBytes);
  }
  return found;
}

function contentOf(segment: Scanned): Uint8Array {
  const { name, bytes } = segment;
  if (bytes > SEGMENT_BYTES_MAX) throw new LogDamage(`${name} has ${bytes} bytes, more than any segment`);
  try {
    return segment.read(0, bytes);
  } catch (error) {
    throw new LogDamage(`${name} cannot be read: ${caughtMessage(error)}`);
  }
}

function missing(sequence: number, before?: RecordPlace<Scanned>, after?: RecordPlace<Scanned>): string {
  const from =
    before === undefined ? 'the log' : `${before.segment.name} at byte ${before.at + pagesFor(before.dataBytes)}`;
  const found =
    after === undefined ? '' : `, and record ${after.sequence} at byte ${after.at} of ${after.segment.name} is whole`;
  return `record ${sequence} is not readable (it was behind record ${before?.sequence ?? 0}, from ${from} on${found})`;
}
