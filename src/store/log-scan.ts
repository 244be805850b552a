/**
 * Finds the records of a log after any stop. A record is written only after the one before it was synced, so of all
 * records only the last can be torn (log-end.ts). Any other that is needed and missing is damage. What no checkpoint
 * needs is not looked at.
 */
import { viewOf } from '../base/bytes.ts';
import { caughtMessage } from '../base/caught.ts';
import { ENTRY_BYTES_MAX, UNCOMMITTED_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { type Cut, judgeEnd } from './log-end.ts';
import {
  LOG_PAGE_BYTES,
  LogDamage,
  type SegmentNote,
  RECORD_HEAD,
  type RecordHead,
  isWhole,
  pagesFor,
  pagesOf,
  readHead,
} from './log-record.ts';

/**
 * The largest entry has a segment of its own. The first release put all that waited for an election into one
 * entry, and such an entry may have come here from an LMDB log.
 */
const SEGMENT_BYTES_MAX = pagesFor(UNCOMMITTED_BYTES_MAX + ENTRY_BYTES_MAX) + LOG_PAGE_BYTES;

/** A segment's bytes, as the scan reads them. */
export interface Scanned {
  readonly name: string;
  readonly bytes: number;
  /** A copy. */
  read(at: number, bytes: number): Uint8Array;
}

/** The part of the log that a checkpoint makes unnecessary. */
export interface Covered {
  readonly log: bigint;
  /** The first record that is still needed. */
  readonly oldest: number;
  /** The last one when the checkpoint was written. */
  readonly last: number;
  /** The segments with records then, oldest first, and where the next record went. Undefined: format 3 wrote it. */
  readonly place: { readonly segments: readonly SegmentNote[]; readonly end: number } | undefined;
}

export interface RecordPlace<S> extends RecordHead {
  readonly segment: S;
  readonly at: number;
}

export interface LogScan<S> {
  /** The records from the oldest that is needed to the last, in order. */
  readonly records: readonly RecordPlace<S>[];
  readonly nextSequence: number;
  /** Where the next record goes; undefined: into another segment. */
  readonly end: { readonly segment: S; readonly at: number } | undefined;
  /** A record whose write did not end. */
  readonly cut: Cut | undefined;
}

export const segmentName = (segment: number): string => `segment-${segment}`;

/** Throws LogDamage when a record is missing that is needed. */
export function scanLog<S extends Scanned>(segments: readonly S[], covered: Covered): LogScan<S> {
  if (segments.length === 0) throw new LogDamage('the log has no segment files');
  const unreadable: string[] = [];
  const heads = segments.flatMap((segment) => headsOf(segment, covered.log, unreadable));
  const { records, before, next, after } = inOrder(heads, covered);
  const why = unreadable.length === 0 ? '' : `; ${unreadable.join('; ')}`;
  if (after !== undefined && !planted('later-record-ignored')) throw new LogDamage(missing(next, before, after) + why);
  if (next <= covered.last && !planted('covered-record-forgotten'))
    throw new LogDamage(`${missing(next, before)}; a checkpoint covers the log up to record ${covered.last}${why}`);
  const end = endOf(segments, covered, { records, before, next });
  const cut = end && judgeEnd(contentOf(end.segment), end, covered.log, next);
  return { records, nextSequence: next, end, cut };
}

interface Found<S> extends RecordPlace<S> {
  readonly isWhole: boolean;
}

/** All heads; those of version 1 only with all of their record. */
function headsOf<S extends Scanned>(segment: S, log: bigint, unreadable: string[]): Found<S>[] {
  const found: Found<S>[] = [];
  let content: Uint8Array;
  try {
    content = contentOf(segment);
  } catch (error) {
    // Whether that matters is seen when a record is missing.
    unreadable.push(caughtMessage(error));
    return [];
  }
  for (let at = 0; at < content.length;) {
    const head = readHead(content, at, log);
    const whole = head !== undefined && isWhole(content, at, head);
    if (head !== undefined && (whole || head.version !== 1)) {
      // A segment is used again from its start: older records may follow the newest one.
      const last = found.at(-1);
      const sequence =
        planted('log-sequence-ignored') && last !== undefined && head.sequence < last.sequence
          ? last.sequence + 1
          : head.sequence;
      found.push({ ...head, sequence, segment, at, isWhole: whole });
    }
    at += whole && head !== undefined ? pagesOf(head) : LOG_PAGE_BYTES;
  }
  return found;
}

/** All records from the oldest that is needed on that can be read, in order, whatever is missing between them. */
export function readableRecords<S extends Scanned>(
  segments: readonly S[],
  { log, oldest }: Covered,
): { readonly records: readonly RecordPlace<S>[]; readonly unreadable: readonly string[] } {
  const unreadable: string[] = [];
  const heads = segments.flatMap((segment) => headsOf(segment, log, unreadable));
  const whole = heads.filter(({ isWhole: all, sequence }) => all && sequence >= oldest);
  const sorted = whole.toSorted((a, b) => a.sequence - b.sequence);
  return { records: sorted.filter((one, i) => one.sequence !== sorted[i - 1]?.sequence), unreadable };
}

interface InOrder<S> {
  readonly records: RecordPlace<S>[];
  /** The last of them, or the newest one that is not needed. */
  readonly before: RecordPlace<S> | undefined;
  /** The number of the first that is not there, or not whole. */
  readonly next: number;
  /** A head that proves that it was. */
  readonly after: RecordPlace<S> | undefined;
}

function inOrder<S extends Scanned>(heads: readonly Found<S>[], covered: Covered): InOrder<S> {
  const sorted = heads.toSorted((a, b) => a.sequence - b.sequence);
  const records: RecordPlace<S>[] = [];
  let next = planted('unneeded-record-missed') ? Math.max(1, covered.oldest - 1) : covered.oldest;
  let before = sorted.findLast((found) => found.isWhole && found.sequence < next);
  for (let at = sorted.findIndex(({ sequence }) => sequence >= next); at >= 0; next++) {
    let found: Found<S> | undefined;
    // A page that the disk also wrote elsewhere is no matter.
    for (let one = sorted[at]; one?.sequence === next; one = sorted[++at])
      if (found === undefined && one.isWhole && follows(before, one)) found = one;
    if (found === undefined) break;
    records.push(found);
    before = found;
  }
  return { records, before, next, after: sorted.find(({ sequence }) => sequence > next) };
}

function follows(before: RecordPlace<Scanned> | undefined, { segment, at, sequence }: RecordPlace<Scanned>): boolean {
  // Records before the oldest that is needed may be damaged.
  if (before === undefined || before.sequence !== sequence - 1) return true;
  if (before.version === 1 && at === 0) return true;
  if (before.next !== undefined) return at === 0 && segment.name === segmentName(before.next.segment);
  return before.segment === segment && at === before.at + pagesOf(before);
}

/** Where the record `next` would begin. */
function endOf<S extends Scanned>(
  segments: readonly S[],
  { last, place }: Covered,
  { records, before, next }: Omit<InOrder<S>, 'after'>,
): LogScan<S>['end'] {
  // Format 3 did not note it: its last record may have been torn, and the log goes on in another segment.
  if (place === undefined) return undefined;
  const links = records.flatMap((record) => record.next ?? []);
  const known = new Map([...place.segments, ...links].map(({ segment, bytes }) => [segmentName(segment), bytes]));
  const noted = place.segments.at(-1);
  let [name, at] = [noted === undefined ? '' : segmentName(noted.segment), place.end];
  if (before !== undefined && next - 1 > last) {
    [name, at] = [before.segment.name, before.at + pagesOf(before)];
    if (before.next !== undefined) [name, at] = [segmentName(before.next.segment), 0];
  }
  const segment = segments.find((one) => one.name === name);
  if (segment === undefined) throw new LogDamage(`${name} is missing: the log goes on there with record ${next}`);
  const bytes = known.get(name) ?? segment.bytes;
  if (segment.bytes < bytes)
    throw new LogDamage(
      `${name} has ${segment.bytes} bytes and was made with ${bytes}: records from ${next} on may be missing`,
    );
  return { segment, at };
}

/** Whether a segment holds a record of any log. One that cannot be read may. */
export function holdsRecords(open: () => Scanned & { close(): void }): boolean {
  const segment = open();
  try {
    const content = contentOf(segment);
    const view = viewOf(content);
    for (let at = 0; at + RECORD_HEAD.size <= content.length; at += LOG_PAGE_BYTES) {
      const head = readHead(content, at, RECORD_HEAD.fields.log.get(view, at));
      if (head !== undefined && isWhole(content, at, head)) return true;
    }
    return false;
  } catch {
    return true;
  } finally {
    segment.close();
  }
}

export function contentOf(segment: Scanned): Uint8Array {
  const { name, bytes } = segment;
  if (bytes > SEGMENT_BYTES_MAX) throw new LogDamage(`${name} has ${bytes} bytes, more than any segment`);
  try {
    return segment.read(0, bytes);
  } catch (error) {
    throw new LogDamage(`${name} cannot be read: ${caughtMessage(error)}`);
  }
}

function missing(sequence: number, before?: RecordPlace<Scanned>, after?: RecordPlace<Scanned>): string {
  const from = before === undefined ? 'the log' : `${before.segment.name} at byte ${before.at + pagesOf(before)}`;
  const found =
    after === undefined
      ? ''
      : `, and record ${after.sequence} at byte ${after.at} of ${after.segment.name} was written behind it`;
  return `record ${sequence} is not readable (it was behind record ${before?.sequence ?? 0}, from ${from} on${found})`;
}
