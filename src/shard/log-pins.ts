/**
 * Log that is kept for nodes that get a snapshot: what was written since it was taken, until they have that too. Without, a busy
 * group would have let go of it, and the node would need the next snapshot as soon as it has this one.
 *
 * It is bounded: by a fixed amount, or what the node has taken so far if that is more. A node that takes bytes faster than they are
 * written stays within it, however large the group is; one that does not would never catch up, with any bound.
 */
import type { Group } from '../group/group.ts';
import type { ShardStorage } from './ports.ts';

const MIB = 1024 * 1024;

export interface PinBounds {
  /** Log in bytes that a node may always be behind: a minute at a MiB a second, and nothing against a disk. */
  readonly bytes: number;
  /** Entries it may be behind. What is known of each stays in memory, about 100 bytes: 50 MB. */
  readonly entries: number;
}

const PIN_BOUNDS: PinBounds = { bytes: 64 * MIB, entries: 500_000 };
/** Log behind a checkpoint that is kept for slow followers, in bytes per group; beyond it they get a snapshot. */
export const LOG_KEPT_BYTES = 4 * MIB;
/** A node that has its snapshot and takes nothing of the log behind it for so long: the log is not kept any longer. */
const STILL_MS = 30_000;

export interface Pin {
  readonly group: Group;
  readonly node: number;
  /** The log behind it is kept. */
  index: number;
  /** What the node has taken of the snapshot. */
  sentBytes: number;
  /** sending: the snapshot; following: the log behind it. */
  phase: 'sending' | 'following';
  movedAtMs: number;
}

/** How the log that is kept stands to what may be kept. */
export interface Behind {
  readonly bytes: number;
  readonly entries: number;
  readonly bytesMax: number;
}

type Storage = Pick<ShardStorage, 'logBytesBehind' | 'roomToGrow'>;

export class LogPins {
  readonly #storage: Storage;
  readonly #pins = new Set<Pin>();
  readonly #bounds: PinBounds;

  constructor(storage: Storage, bounds = PIN_BOUNDS) {
    this.#storage = storage;
    this.#bounds = bounds;
  }

  add(group: Group, node: number): Pin {
    // One transfer at a time to a node of a group: an earlier one is over.
    for (const pin of this.#pins) if (pin.group === group && pin.node === node) this.#pins.delete(pin);
    const { appliedIndex } = group.state;
    const pin: Pin = { group, node, index: appliedIndex, sentBytes: 0, phase: 'sending', movedAtMs: 0 };
    this.#pins.add(pin);
    return pin;
  }

  remove(pin: Pin): void {
    this.#pins.delete(pin);
  }

  /** Oldest index whose following entries are still needed; Infinity when none. */
  oldest(group: number): number {
    let oldest = Infinity;
    for (const pin of this.#pins) if (pin.group.id === group) oldest = Math.min(oldest, pin.index);
    return oldest;
  }

  /** The node has the snapshot; it gets the log now. */
  follow(pin: Pin, clockMs: number): void {
    pin.phase = 'following';
    pin.movedAtMs = clockMs;
  }

  /** Undefined: within its bounds. A volume that runs short gives a transfer no more than any slow follower. */
  tooFarBehind({ group, index, sentBytes }: Pin): Behind | undefined {
    const bytes = this.#storage.logBytesBehind(group.id, index);
    const entries = group.raft.lastIndex - index;
    const most = Math.max(this.#bounds.bytes, sentBytes);
    const bytesMax = this.#storage.roomToGrow ? most : Math.min(LOG_KEPT_BYTES, most);
    return bytes > bytesMax || entries > this.#bounds.entries ? { bytes, entries, bytesMax } : undefined;
  }

  /** Those that are following: how each of them ended, if it did. */
  look(clockMs: number, ended: (pin: Pin, how: 'caught up' | 'gone' | Behind) => void): void {
    for (const pin of this.#pins) {
      if (pin.phase !== 'following') continue;
      const how = this.#progress(pin, clockMs);
      if (how === undefined) continue;
      this.#pins.delete(pin);
      ended(pin, how);
    }
  }

  #progress(pin: Pin, clockMs: number): 'caught up' | 'gone' | Behind | undefined {
    const { group, node } = pin;
    const peer = group.leads ? group.raft.peers().find((one) => one.node === node) : undefined;
    if (peer === undefined || peer.state === 'snapshot') return 'gone';
    if (peer.match > pin.index) {
      pin.index = peer.match;
      pin.movedAtMs = clockMs;
    }
    if (peer.match >= pin.index && this.#storage.logBytesBehind(group.id, pin.index) <= LOG_KEPT_BYTES / 2)
      return 'caught up';
    if (clockMs - pin.movedAtMs > STILL_MS) return 'gone';
    return this.tooFarBehind(pin);
  }
}
