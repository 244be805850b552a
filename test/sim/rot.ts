/** Bits of the log that flip while no process runs. */
import type { Random } from '../support/random.ts';
import { RECORD_HEAD, SECTOR_BYTES, SECTOR_STAMP } from '../../src/store/log-record.ts';
import type { SimDisk } from './disk.ts';
import type { SimSegment } from './log-disk.ts';
import { logOf, recordsOf } from './log-records.ts';

const TRIES = 50;

interface Span {
  readonly segment: SimSegment;
  readonly at: number;
  readonly end: number;
}

/** Rots a record that is needed, every second time the last one. False: there is none. */
export function rotRecord(disk: SimDisk, random: Random): boolean {
  const records = recordsOf(disk).map(spanOf);
  if (records.length === 0) return false;
  const { segment, at, end } = random.chance(0.5) ? (records.at(-1) as Span) : random.pick(records);
  let place = random.int(at, end - 1);
  // A stamp says nothing that is not known.
  const inSector = (place - at) % SECTOR_BYTES;
  if (inSector >= SECTOR_BYTES - SECTOR_STAMP.size) place -= SECTOR_STAMP.size;
  segment.flipBit(place, random.int(0, 7));
  return true;
}

/** Rots free segments, what an earlier use left behind, and what is torn. */
export function rotUnused(disk: SimDisk, random: Random): void {
  const spans = recordsOf(disk).map(spanOf);
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
