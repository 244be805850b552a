/**
 * Log kept for nodes that receive a snapshot: everything written since the snapshot, until they have that too. Without
 * it a busy group would compact it, and the node would need another snapshot as soon as it has this one.
 *
 * The kept log is bounded: by a fixed amount, or by what the node has received so far if that is more. A node that
 * receives bytes faster than they are written stays within it, however large the group; a slower one would never catch
 * up with any bound.
 */
import type { Group } from '../group/group.ts';
import type { ShardStorage } from './ports.ts';

const MIB = 1024 * 1024;

export interface PinBounds {
  /** Bytes of log that a node may always be behind: a minute at a MiB a second, and little for a disk. */
  readonly bytes: number;
  /** Entries it may be behind. Each costs about 100 bytes of memory: 50 MB. */
  readonly entries: number;
}

const PIN_BOUNDS: PinBounds = { bytes: 64 * MIB, entries: 500_000 };
/** Log after a checkpoint that is kept for slow followers, in bytes per group; beyond it they get a snapshot. */
export const LOG_KEPT_BYTES = 4 * MIB;
/** A node that has its snapshot and receives nothing of the log after it for this long: the log is no longer kept. */
const STILL_MS = 30_000;

export interface LogPin {
  readonly group: Group;
  readonly node: number;
  /** The log after it is kept. */
  index: number;
  /** Bytes of the snapshot that the node has received. */
  sentBytes: number;
  /** sending: the snapshot; following: the log after it. */
  phase: 'sending' | 'following';
  movedAtMs: number;
}

/** The kept log compared with its bounds. */
export interface Behind {
  readonly bytes: number;
  readonly entries: number;
  readonly bytesMax: number;
}

type Storage = Pick<ShardStorage, 'logBytesBehind' | 'roomToGrow'>;

export class LogPins {
  readonly #storage: Storage;
  readonly #pins = new Set<LogPin>();
  readonly #bounds: PinBounds;

  constructor(storage: Storage, bounds = PIN_BOUNDS) {
    this.#storage = storage;
    this.#bounds = bounds;
  }

  add(group: Group, node: number): LogPin {
    // One transfer at a time to a node of a group, so an earlier one is over.
    for (const pin of this.#pins) if (pin.group === group && pin.node === node) this.#pins.delete(pin);
    const { appliedIndex } = group.state;
    const pin: LogPin = { group, node, index: appliedIndex, sentBytes: 0, phase: 'sending', movedAtMs: 0 };
    this.#pins.add(pin);
    return pin;
  }

  remove(pin: LogPin): void {
    this.#pins.delete(pin);
  }

  /** Oldest index after which entries are still needed; Infinity when none. */
  oldest(group: number): number {
    let oldest = Infinity;
    for (const pin of this.#pins) if (pin.group.id === group) oldest = Math.min(oldest, pin.index);
    return oldest;
  }

  /** The node has the snapshot; it gets the log now. */
  follow(pin: LogPin, clockMs: number): void {
    pin.phase = 'following';
    pin.movedAtMs = clockMs;
  }

  /**
   * Undefined: within its bounds. When the volume runs short, a transfer gets no more than any slow follower; nor when
   * another node leads by now, because that one keeps no more.
   */
  tooFarBehind({ group, index, sentBytes }: LogPin): Behind | undefined {
    const bytes = this.#storage.logBytesBehind(group.id, index);
    const entries = group.raft.lastIndex - index;
    const most = Math.max(this.#bounds.bytes, sentBytes);
    const bytesMax = this.#storage.roomToGrow && group.leads ? most : Math.min(LOG_KEPT_BYTES, most);
    return bytes > bytesMax || entries > this.#bounds.entries ? { bytes, entries, bytesMax } : undefined;
  }

  /** Checks the followers and reports how each of them ended, if it did. */
  look(clockMs: number, ended: (pin: LogPin, how: 'caught up' | 'gone' | Behind) => void): void {
    for (const pin of this.#pins) {
      if (pin.phase !== 'following') continue;
      const how = this.#progress(pin, clockMs);
      if (how === undefined) continue;
      this.#pins.delete(pin);
      ended(pin, how);
    }
  }

  #progress(pin: LogPin, clockMs: number): 'caught up' | 'gone' | Behind | undefined {
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
