/** The log of a simulated disk, as a start would find it. */
import { type Covered, LogDamage, type RecordPlace, scanLog } from '../../src/store/log-scan.ts';
import { LOG_ROW, LOG_TAG, systemKey } from '../../src/store/rows.ts';
import { latin1 } from '../support/sorted-rows.ts';
import type { SimDisk } from './disk.ts';
import type { SimSegment } from './log-disk.ts';

/** The last checkpoint's part of the log; undefined: there is none yet. */
export function coveredOf(disk: SimDisk): Covered | undefined {
  const row = disk.row(latin1(systemKey(LOG_TAG, 0)));
  return row === undefined ? undefined : LOG_ROW.decode(row);
}

/** The records that are needed, in order; none when the log is damaged. */
export function recordsOf(disk: SimDisk): RecordPlace<SimSegment>[] {
  const covered = coveredOf(disk);
  if (covered === undefined) return [];
  const scanned = disk.logs.segments.map((segment) => ({
    segment,
    name: segment.name,
    bytes: segment.content.length,
    read: (at: number, bytes: number) => segment.content.subarray(at, at + bytes),
  }));
  try {
    return scanLog(scanned, covered).map((place) => ({ ...place, segment: place.segment.segment }));
  } catch (error) {
    if (error instanceof LogDamage) return [];
    throw error;
  }
}
