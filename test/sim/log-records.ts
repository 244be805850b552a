/** The log of a simulated disk, as a start would find it. */
import { LogDamage } from '../../src/store/log-record.ts';
import { type Covered, type LogScan, type RecordPlace, scanLog } from '../../src/store/log-scan.ts';
import { OWN_TAG, decodeLog, systemKey } from '../../src/store/rows.ts';
import { latin1 } from '../support/sorted-rows.ts';
import type { SimDisk } from './disk.ts';
import type { SimSegment } from './log-disk.ts';

/** The last checkpoint's part of the log; undefined: there is none yet. */
export function coveredOf(disk: SimDisk): Covered | undefined {
  const row = disk.row(latin1(systemKey(OWN_TAG.log, 0)));
  return row === undefined ? undefined : decodeLog(row);
}

/** Undefined: the log is damaged, or there is none yet. */
export function logOf(disk: SimDisk): LogScan<SimSegment> | undefined {
  const covered = coveredOf(disk);
  if (covered === undefined) return undefined;
  try {
    return scanLog(disk.logs.segments, covered);
  } catch (error) {
    if (error instanceof LogDamage) return undefined;
    throw error;
  }
}

/** The records with something in them that are needed, in order; none when the log is damaged. */
export function recordsOf(disk: SimDisk): readonly RecordPlace<SimSegment>[] {
  return logOf(disk)?.records.filter(({ dataBytes }) => dataBytes > 0) ?? [];
}
