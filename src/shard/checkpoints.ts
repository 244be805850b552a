/**
 * Decides which groups' applied state goes into this commit. Only the log has to be on disk for an acknowledgement; the
 * state follows at most CHECKPOINT_MS later, so a busy stream's head and last row are written a few times a second
 * instead of once per turn. Groups take turns, so no single commit carries all of them.
 */
import { BODY_BYTES_MAX, PAGE_VALUE_BYTES } from '../base/limits.ts';
import type { Group } from '../group/group.ts';
import type { State } from '../stream/core/state.ts';

/**
 * Age at which changed state is written. Also bounds the log that a restart replays. A stream's last row and its head
 * are written again with every checkpoint, so fewer of them write less: a quarter of all bytes less than with 400 ms
 * (501 streams, three nodes).
 */
export const CHECKPOINT_MS = 1000;
/** Changed bytes of a group that are written regardless of age. */
const GROUP_BYTES_MAX = 512 * 1024;
/**
 * A group in which so many streams changed waits longer: each of them changes two leaves of the
 * B-tree, and with thousands in one commit several share a leaf. Half a leaf for each where 4,000
 * of 60,000 streams changed, two leaves where 60 did.
 */
const MANY_STREAMS = 500;
const MANY_STREAMS_MS = 8000;
/**
 * Some 15 ms of encoding, and 2.5 MB of memory per group. Twice as many write fewer pages for each stream, but appends
 * at random over a million streams were no faster, had twice the p99, and the node 70 MiB more.
 */
const STREAMS_MAX = 2048;
/** Changed bytes that one commit carries beyond its first group: encoding them delays the next turn. */
const COMMIT_BYTES_MAX = 512 * 1024;
/** Memory of a changed stream besides its bytes, and of a row in the overlay. */
const STREAM_BYTES = 1024;
const ROW_BYTES = 256;

/** Memory that the changes of a group take until they are on disk. */
export function changedBytes({ dirtyBytes, dirtyStreams, overlay }: State): number {
  return dirtyBytes + STREAM_BYTES * dirtyStreams + ROW_BYTES * overlay.size;
}

export class Checkpoints {
  readonly #groups: readonly Group[];
  /** When each group's oldest unwritten change was made; 0 = clean. */
  readonly #dirtySinceMs: number[];
  #next = 0;

  constructor(groups: readonly Group[]) {
    this.#groups = groups;
    this.#dirtySinceMs = groups.map(() => 0);
  }

  /** Records which groups changed since the last call. */
  observe(clockMs: number): void {
    for (let i = 0; i < this.#groups.length; i++) {
      if (this.#dirtySinceMs[i] === 0 && (this.#groups[i] as Group).state.dirty) this.#dirtySinceMs[i] = clockMs;
    }
  }

  /**
   * Groups to write now: those that are due, any that changed when there is a hurry, or all of them in one commit at
   * shutdown. Cheap when nothing is due.
   */
  due(clockMs: number, which: 'due' | 'changed' | 'all'): Group[] {
    const due: Group[] = [];
    let bytes = 0;
    const count = this.#groups.length;
    for (let step = 0; step < count; step++) {
      const i = (this.#next + step) % count;
      const since = this.#dirtySinceMs[i] as number;
      if (since === 0) continue;
      const group = this.#groups[i] as Group;
      if (which === 'due' && !isDue(group, clockMs - since)) continue;
      if (which !== 'all' && due.length > 0 && bytes + group.state.dirtyBytes > COMMIT_BYTES_MAX) {
        this.#next = i;
        return due;
      }
      bytes += group.state.dirtyBytes;
      due.push(group);
    }
    return due;
  }

  /** The commit with these groups is on disk. */
  done(groups: readonly Group[], clockMs: number): void {
    for (const group of groups) {
      // Reclaiming a removed stream's rows may take several commits; such a group stays due.
      this.#dirtySinceMs[this.#groups.indexOf(group)] = group.state.dirty ? clockMs : 0;
    }
  }

  /** Milliseconds until something is due; Infinity when everything is clean. */
  waitMs(clockMs: number): number {
    let wait = Infinity;
    for (const [i, since] of this.#dirtySinceMs.entries()) {
      if (since === 0) continue;
      const { ageMs } = limitsOf((this.#groups[i] as Group).state);
      wait = Math.min(wait, Math.max(0, since + ageMs - clockMs));
    }
    return wait;
  }
}

interface Limits {
  readonly ageMs: number;
  readonly bytes: number;
}

const USUAL: Limits = { ageMs: CHECKPOINT_MS, bytes: GROUP_BYTES_MAX };
/**
 * Between the pieces of a large command. A checkpoint would write what is there as rows that the last piece deletes;
 * it comes behind that piece, unless more changes meanwhile than the command has.
 */
const IN_PIECES: Limits = { ageMs: 2000, bytes: BODY_BYTES_MAX };
const SPREAD: Limits = { ageMs: MANY_STREAMS_MS, bytes: Infinity };

function limitsOf({ dirtyStreams, dirtyBytes, partial }: State): Limits {
  if (partial.receivedBytes > 0) return IN_PIECES;
  // Where each stream got whole rows, waiting saves nothing.
  return dirtyStreams < MANY_STREAMS || dirtyBytes > dirtyStreams * PAGE_VALUE_BYTES ? USUAL : SPREAD;
}

function isDue({ state }: Group, ageMs: number): boolean {
  const limits = limitsOf(state);
  return ageMs >= limits.ageMs || state.dirtyBytes >= limits.bytes || state.dirtyStreams >= STREAMS_MAX;
}
