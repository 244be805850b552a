/**
 * Disks that do not do what they say: faults of the simulator's own disk, which must be found like planted bugs. Those
 * are in src/base/planted-bugs.ts.
 */
import { TAG } from '../../src/stream/core/keys.ts';
import { freshBytes, pagesOf } from '../../src/store/log-record.ts';
import type { SimDisk } from './disk.ts';
import { coveredOf, logOf, recordsOf } from './log-records.ts';

export interface DiskFault {
  /** Describes the fault of the disk. */
  readonly about: string;
  /** Instead of `work`, which puts on the platter what a commit or a record wrote. */
  readonly sync?: (work: () => void, later: (delayMs: number, work: () => void) => void) => void;
  /** Rows with this tag are missing from group snapshots. */
  readonly hiddenTag?: number;
  /** Before a process opens its store, as far as the disk was used. */
  readonly onBoot?: (disk: SimDisk) => void;
}

/** How long a lying disk keeps a commit in its memory. */
const LAZY_SYNC_MS = 60;

function forgetLogTail(disk: SimDisk): void {
  const covered = coveredOf(disk);
  const last = recordsOf(disk).at(-1);
  // A record that a checkpoint names would be missed.
  if (covered === undefined || last === undefined || last.sequence <= covered.last) return;
  // With the seal behind it, as if they had never been written.
  for (const { segment, at, ...head } of logOf(disk)?.records ?? []) {
    if (head.sequence < last.sequence) continue;
    segment.write(at, freshBytes(covered.log, pagesOf(head)));
    segment.sync();
  }
}

export const DISK_FAULTS: Readonly<Record<string, DiskFault>> = {
  'ack-before-sync': {
    about: 'A commit or a record is reported before it is durable.',
    sync: (work, later) => later(LAZY_SYNC_MS, work),
  },
  'log-tail-forgotten': {
    about: 'The last record of the log is gone after a restart.',
    onBoot: forgetLogTail,
  },
  'producers-not-in-snapshot': {
    about: 'Group snapshots leave producers out: their receiver takes a repeated append for a new one.',
    hiddenTag: TAG.producer,
  },
  'import-mark-not-in-snapshots': {
    about: 'Group snapshots leave the mark of an import out: their receiver serves a group that is not whole.',
    hiddenTag: TAG.import,
  },
};
