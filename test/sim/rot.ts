/** Bits of the log that flip while no process runs. */
import type { Random } from '../support/random.ts';
import { RECORD_HEAD } from '../../src/store/log-record.ts';
import type { SimDisk } from './disk.ts';
import type { SimSegment } from './log-disk.ts';
import { coveredOf, recordsOf } from './log-records.ts';

const TRIES = 50;

interface Span {
  readonly segment: SimSegment;
  readonly at: number;
  readonly end: number;
}

/**
 * Rots a record that is needed. Not one that may be the torn end of the log: nothing
 * tells the two apart. False: there is none.
 */
export function rotRecord(disk: SimDisk, random: Random): boolean {
  const records = recordsOf(disk);
  const end = Math.max(coveredOf(disk)?.last ?? 0, (records.at(-1)?.sequence ?? 0) - 1);
  const behind = records.filter(({ sequence }) => sequence <= end).map(spanOf);
  if (behind.length === 0) return false;
  const { segment, at, end: to } = random.pick(behind);
  segment.flipBit(random.int(at, to - 1), random.int(0, 7));
  return true;
}

/** Rots free segments, what an earlier use left behind, and what is torn. */
export function rotUnused(disk: SimDisk, random: Random): void {
  const spans = recordsOf(disk).map(spanOf);
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
