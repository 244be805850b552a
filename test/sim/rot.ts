/** Bits of the log that flip while no process runs, and writes of it that turn out not to be there. */
import type { Random } from '../support/random.ts';
import { RECORD_HEAD, SECTOR_BYTES, SECTOR_STAMP, freshBytes, pagesOf } from '../../src/store/log-record.ts';
import type { RecordPlace } from '../../src/store/log-scan.ts';
import type { SimDisk } from './disk.ts';
import type { SimSegment } from './log-disk.ts';
import { coveredOf, logOf, recordsOf } from './log-records.ts';

const TRIES = 50;

interface Span {
  readonly segment: SimSegment;
  readonly at: number;
  readonly end: number;
}

/** Rots a record that is needed, every second time the last one. False: there is none. */
export function rotRecord(disk: SimDisk, random: Random): boolean {
  const records = recordsOf(disk);
  if (records.length === 0) return false;
  const record = random.chance(0.5) ? (records.at(-1) as RecordPlace<SimSegment>) : random.pick(records);
  const { segment, at, end } = spanOf(record);
  let place = random.int(at, end - 1);
  // A stamp says nothing that is not known.
  const inSector = (place - at) % SECTOR_BYTES;
  if (inSector >= SECTOR_BYTES - SECTOR_STAMP.size) place -= SECTOR_STAMP.size;
  const bit = random.int(0, 7);
  if (bit > 3 || !loseWrites(disk, record.sequence, bit === 0)) segment.flipBit(place, bit);
  return true;
}

/**
 * The disk shows what was there before a record was written, or all from it on. False: nothing could tell that from a
 * log which ends there, for neither a later record nor a checkpoint is left.
 */
function loseWrites(disk: SimDisk, sequence: number, all: boolean): boolean {
  const covered = coveredOf(disk);
  const from = (logOf(disk)?.records ?? []).filter((record) => record.sequence >= sequence);
  if (covered === undefined || (sequence > covered.last && (all || from.length === 1))) return false;
  for (const { segment, at, ...head } of all ? from : from.slice(0, 1)) {
    segment.write(at, freshBytes(covered.log, pagesOf(head)));
    segment.sync();
  }
  return true;
}

/** Rots free segments, what an earlier use left behind, and what is torn. */
export function rotUnused(disk: SimDisk, random: Random): void {
  // The bytes in the places of the stamps lie behind the data.
  const spans = recordsOf(disk).map((record) => ({ ...spanOf(record), end: record.at + pagesOf(record) }));
  const end = logOf(disk)?.end;
  // A torn record whose head has changed looks like one that was whole.
  if (end !== undefined) spans.push({ ...end, end: end.at + SECTOR_BYTES });
  const { segments } = disk.logs;
  for (let i = 0; i < TRIES && segments.length > 0; i++) {
    const segment = random.pick(segments);
    const at = random.int(0, segment.content.length - 1);
    const isNeeded = spans.some((span) => span.segment === segment && at >= span.at && at < span.end);
    if (!isNeeded) segment.flipBit(at, random.int(0, 7));
  }
}

function spanOf({ segment, at, dataBytes }: { segment: SimSegment; at: number; dataBytes: number }): Span {
  return { segment, at, end: at + RECORD_HEAD.size + dataBytes };
}
