/**
 * A seed's decisions about the backups of its run. Drawn apart from everything else, so that it moves nothing there.
 */
import { createRandom } from '../../support/random.ts';

export interface BackupOptions {
  /** Mean time between two exports; Infinity: none but those that are needed. */
  readonly exportsMs: number;
  /** Undefined: nothing is imported. */
  readonly restore: RestoreOptions | undefined;
}

export interface RestoreOptions {
  /** A group that no client uses, and that gets what another one held. */
  readonly target: number;
  readonly source: number;
  /** When the document is taken. */
  readonly atMs: number;
  /** Rows of one command. */
  readonly pieceBytes: number;
  /** Size of the upload's parts, and the interval between them. */
  readonly uploadBytes: number;
  readonly paceMs: number;
  /** Chances of uploads that break off, and of those that come altered. */
  readonly broken: number;
  readonly altered: number;
  /** Chance that a command arrives once more, much later, through another node. */
  readonly late: number;
  /** Another client creates streams in the group meanwhile, so it may not be empty when the import begins. */
  readonly spoiled: boolean;
}

export const NO_BACKUP: BackupOptions = { exportsMs: Infinity, restore: undefined };

/** `groups`: those that clients use. */
export function drawBackup(seed: number, groups: number, safetyMs: number): BackupOptions {
  const random = createRandom(seed ^ 0x2b5a_c7e1);
  const exportsMs = random.pick([Infinity, 6000, 2500]);
  const restore: RestoreOptions = {
    target: groups,
    source: random.int(0, groups - 1),
    atMs: random.int(3000, Math.max(3000, Math.floor(0.6 * safetyMs))),
    pieceBytes: random.pick([150, 1000, 5000, 1_000_000]),
    uploadBytes: random.pick([64, 700, 20_000]),
    paceMs: random.pick([0, 2, 40]),
    broken: random.pick([0, 0.2, 0.5]),
    altered: random.pick([0, 0, 0.3]),
    late: random.pick([0, 0.02, 0.2]),
    spoiled: random.chance(0.08),
  };
  return { exportsMs, restore: random.chance(0.35) ? restore : undefined };
}
