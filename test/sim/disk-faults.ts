/**
 * Disks that do not do what they say: faults of the simulator's own disk, which must be found like planted bugs. Those
 * are in src/base/planted-bugs.ts.
 */
import { TAG_IMPORT, TAG_PRODUCER } from '../../src/stream/keys.ts';
import type { SimDisk } from './disk.ts';

export interface DiskFault {
  /** What the disk does wrong. */
  readonly about: string;
  /** Instead of SimDisk.sync at the end of a commit. */
  readonly sync?: (disk: SimDisk, later: (delayMs: number, work: () => void) => void) => void;
  /** Rows with this tag are missing from group snapshots. */
  readonly hiddenTag?: number;
  /** Before a process opens its store, as far as the disk was used. */
  readonly onBoot?: (disk: SimDisk) => void;
}

/** How long a lying disk keeps a commit in its memory. */
const LAZY_SYNC_MS = 60;
/** The first part of a key of the log (store/turn-log.ts). */
const TURN_BYTES = 8;

function forgetLogTail(disk: SimDisk): void {
  const keys = disk.log.allKeys();
  // A record is cut into parts, whose keys begin with its turn.
  const turn = keys[keys.length - 1]?.slice(0, TURN_BYTES) ?? '';
  for (const key of keys) if (key.startsWith(turn)) disk.log.set(key, undefined);
  disk.sync();
}

export const DISK_FAULTS: Readonly<Record<string, DiskFault>> = {
  'ack-before-sync': {
    about: 'A commit is reported before it is durable.',
    sync: (disk, later) => later(LAZY_SYNC_MS, () => disk.sync()),
  },
  'log-tail-forgotten': {
    about: 'The last record of the log is gone after a restart.',
    onBoot: forgetLogTail,
  },
  'producers-not-in-snapshot': {
    about: 'Group snapshots leave producers out: their receiver takes a repeated append for a new one.',
    hiddenTag: TAG_PRODUCER,
  },
  'import-mark-not-in-snapshots': {
    about: 'Group snapshots leave the mark of an import out: their receiver serves a group that is not whole.',
    hiddenTag: TAG_IMPORT,
  },
};
