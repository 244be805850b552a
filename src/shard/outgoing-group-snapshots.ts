/**
 * Group snapshots for other nodes: the rows of applied state in one LMDB read transaction, so appends continue
 * meanwhile. The log after them is kept within bounds (log-pins.ts). The receiver is in incoming-group-snapshots.ts.
 */
import { SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { SnapshotMeta, GroupSnapshotRequest } from '../raft/types.ts';
import type { Group } from '../group/group.ts';
import { type Behind, LogPins, type LogPin, type PinBounds } from './log-pins.ts';
import type { Log, PeerPort, ShardStorage, SnapshotSending } from './ports.ts';
import { encodeMetadata } from './snapshot-metadata.ts';

/** Heartbeats wait behind a chunk, also on a thin link; large compared with its header. */
const CHUNK_BYTES = 32 * 1024;

/** Log sentence for operators; the figures follow it. */
export const TOO_FAR_BEHIND =
  'a node takes a snapshot and the log behind it more slowly than the group is written: it is given up, and tried again later';

/** After the first failure nothing is sent to the node for about as long as it takes to restart. */
const RETRY_MS_MIN = 500;
/** Delay at most, for a node that can take a snapshot again. */
const RETRY_MS_MAX = 60_000;

interface Failures {
  readonly count: number;
  readonly notBeforeMs: number;
}

/** A snapshot that raft wants sent. */
export interface WantedSnapshot {
  readonly group: Group;
  readonly message: GroupSnapshotRequest;
}

type Port = Pick<PeerPort, 'sendSnapshot'>;

export interface OutgoingOptions {
  readonly storage: ShardStorage;
  readonly peers: Port;
  readonly log: Log;
  /** Asks for a turn soon. */
  readonly wake: () => void;
  readonly bounds?: PinBounds | undefined;
}

export class OutgoingGroupSnapshots {
  readonly #options: OutgoingOptions;
  /** By group and node, in the order in which raft asked; a later request for the same replaces the earlier one. */
  readonly #wanted = new Map<string, WantedSnapshot>();
  /** Transfers under way. */
  readonly #sending = new Map<LogPin, SnapshotSending>();
  readonly pins: LogPins;
  /** By group and node, so that no group is sent in a loop to a node that cannot take it. */
  readonly #failures = new Map<string, Failures>();
  #clockMs = 0;
  readonly counters = { sent: 0, failed: 0, tooFarBehind: 0 };

  constructor(options: OutgoingOptions) {
    this.#options = options;
    this.pins = new LogPins(options.storage, options.bounds);
  }

  /** Sent when its turn comes; until then raft sends nothing else to that node. */
  want(group: Group, message: GroupSnapshotRequest): void {
    this.#wanted.set(keyOf(group, message.to), { group, message });
  }

  get waiting(): number {
    return this.#wanted.size;
  }

  /** Snapshots whose turn it is. The caller checkpoints their groups, then sends them or tells raft that it cannot. */
  due(clockMs: number): WantedSnapshot[] {
    if (this.#wanted.size === 0) return [];
    const due: WantedSnapshot[] = [];
    const busy = [...this.#sending.keys()].map(({ node }) => node);
    for (const [key, wanted] of this.#wanted) {
      if (busy.length >= SNAPSHOTS_SENT_MAX) break;
      const { group, message } = wanted;
      if (!isStillWanted(group, message.to)) {
        this.#wanted.delete(key);
        continue;
      }
      if (busy.filter((node) => node === message.to).length >= SNAPSHOTS_SENT_PER_NODE_MAX) continue;
      if (clockMs < (this.#failures.get(key)?.notBeforeMs ?? 0)) continue;
      this.#wanted.delete(key);
      busy.push(message.to);
      due.push(wanted);
    }
    return due;
  }

  /** Starts a transfer of the group's state, which the caller has just checkpointed. */
  send(group: Group, message: GroupSnapshotRequest): void {
    const { state, raft } = group;
    const index = state.appliedIndex;
    const meta: SnapshotMeta = { index, term: state.appliedTerm, configuration: raft.configurationAt(index) };
    const reader = this.#options.storage.openSnapshot(group.id);
    const pin = this.pins.add(group, message.to);
    const isWrong = planted('snapshot-with-wrong-index');
    const request = { ...message, snapshot: isWrong ? { ...meta, index: index + 1 } : meta };
    const sending = this.#options.peers.sendSnapshot(message.to, group.id, request, encodeMetadata(meta), {
      next: () => {
        const rows = reader.next(CHUNK_BYTES);
        pin.sentBytes += rows?.length ?? 0;
        return rows;
      },
      done: (outcome) => {
        reader.close();
        this.#sending.delete(pin);
        if (outcome === 'installed') this.#installed(pin, index);
        else this.#failed(pin);
        const figures = { index, outcome, sentBytes: pin.sentBytes };
        this.#options.log('info', 'snapshot sent', { group: group.id, to: message.to, ...figures });
        if (this.#wanted.size > 0) this.#options.wake();
      },
    });
    if (sending !== undefined) {
      this.#sending.set(pin, sending);
      return;
    }
    reader.close();
    this.pins.remove(pin);
    raft.snapshotFailed(message.to);
  }

  /** It cannot be sent now. */
  refuse({ group, message }: WantedSnapshot): void {
    this.#postpone(keyOf(group, message.to));
    group.raft.snapshotFailed(message.to);
  }

  cancel(group: Group): void {
    for (const [pin, sending] of this.#sending) if (pin.group === group) sending.cancel();
  }

  #installed(pin: LogPin, index: number): void {
    this.counters.sent++;
    this.pins.follow(pin, this.#clockMs);
    pin.group.raft.snapshotInstalled(pin.node, index);
  }

  #failed(pin: LogPin): void {
    this.counters.failed++;
    this.pins.remove(pin);
    this.#postpone(keyOf(pin.group, pin.node));
    pin.group.raft.snapshotFailed(pin.node);
  }

  #postpone(key: string): void {
    const count = this.#failures.get(key)?.count ?? 0;
    const waitMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(count, 10));
    this.#failures.set(key, { count: count + 1, notBeforeMs: this.#clockMs + waitMs });
  }

  /** Once a turn: ends transfers that have fallen too far behind. */
  look(clockMs: number): void {
    this.#clockMs = clockMs;
    for (const [pin, sending] of this.#sending) {
      const behind = this.pins.tooFarBehind(pin);
      if (behind === undefined) continue;
      sending.cancel();
      if (pin.group.leads) this.#sayBehind(pin, behind);
    }
    this.pins.look(clockMs, (pin, how) => {
      const key = keyOf(pin.group, pin.node);
      if (how === 'caught up') this.#failures.delete(key);
      if (typeof how !== 'object') return;
      this.#postpone(key);
      this.#sayBehind(pin, how);
    });
  }

  #sayBehind({ group, node: to, index, sentBytes }: LogPin, { bytes, entries, bytesMax }: Behind): void {
    this.counters.tooFarBehind++;
    const figures = { sentBytes, logBytes: bytes, logBytesMax: bytesMax, logEntries: entries };
    this.#options.log('warn', TOO_FAR_BEHIND, { group: group.id, to, index, ...figures });
  }
}

function keyOf(group: Group, node: number): string {
  return `${group.id}/${node}`;
}

/** False when another node leads by now, or the peer got the entries otherwise, or left. */
function isStillWanted({ raft, leads }: Group, node: number): boolean {
  return leads && raft.peers().some((peer) => peer.node === node && (peer.state === 'snapshot' || peer.wantsState));
}
