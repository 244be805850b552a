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
import { Retries } from './retries.ts';
import { encodeMetadata } from './snapshot-metadata.ts';

/** Heartbeats wait behind a chunk, also on a thin link; large compared with its header. */
const CHUNK_BYTES = 32 * 1024;

/** Log sentence for operators; the figures follow it. */
export const TOO_FAR_BEHIND =
  'a node takes a snapshot and the log behind it more slowly than the group is written: it is given up, and tried again later';

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
  readonly #storage: ShardStorage;
  readonly #peers: Port;
  readonly #log: Log;
  readonly #wake: () => void;
  /** By group and node, in the order in which raft asked; a later request for the same replaces the earlier one. */
  readonly #wanted = new Map<string, WantedSnapshot>();
  /** Transfers under way. */
  readonly #sending = new Map<LogPin, SnapshotSending>();
  readonly pins: LogPins;
  readonly #retries = new Retries();
  #clockMs = 0;
  readonly counters = { sent: 0, failed: 0, tooFarBehind: 0 };

  constructor({ storage, peers, log, wake, bounds }: OutgoingOptions) {
    this.#storage = storage;
    this.#peers = peers;
    this.#log = log;
    this.#wake = wake;
    this.pins = new LogPins(storage, bounds);
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
      if (!this.#retries.mayTry(key, clockMs)) continue;
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
    const reader = this.#storage.openSnapshot(group.id);
    const pin = this.pins.add(group, message.to);
    const isWrong = planted('snapshot-with-wrong-index');
    const request = { ...message, snapshot: isWrong ? { ...meta, index: index + 1 } : meta };
    const sending = this.#peers.sendSnapshot(message.to, group.id, request, encodeMetadata(meta), {
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
        this.#log('info', 'snapshot sent', { group: group.id, to: message.to, index, outcome });
        if (this.#wanted.size > 0) this.#wake();
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
    this.#retries.failed(keyOf(group, message.to), this.#clockMs);
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
    this.#retries.failed(keyOf(pin.group, pin.node), this.#clockMs);
    pin.group.raft.snapshotFailed(pin.node);
  }

  /** Once a turn: ends transfers that have fallen too far behind. */
  look(clockMs: number): void {
    this.#clockMs = clockMs;
    for (const [pin, sending] of this.#sending) {
      const behind = this.pins.tooFarBehind(pin);
      if (behind === undefined) continue;
      sending.cancel();
      this.#sayBehind(pin, behind);
    }
    this.pins.look(clockMs, (pin, how) => {
      const key = keyOf(pin.group, pin.node);
      if (how === 'caught up') this.#retries.succeeded(key);
      if (typeof how !== 'object') return;
      this.#retries.failed(key, this.#clockMs);
      this.#sayBehind(pin, how);
    });
  }

  #sayBehind({ group, node: to, index, sentBytes }: LogPin, { bytes, entries, bytesMax }: Behind): void {
    this.counters.tooFarBehind++;
    const figures = { sentBytes, logBytes: bytes, logBytesMax: bytesMax, logEntries: entries };
    this.#log('warn', TOO_FAR_BEHIND, { group: group.id, to, index, ...figures });
  }
}

function keyOf(group: Group, node: number): string {
  return `${group.id}/${node}`;
}

/** False when another node leads by now, or the peer got the entries otherwise, or left. */
function isStillWanted({ raft, leads }: Group, node: number): boolean {
  return leads && raft.peers().some((peer) => peer.node === node && (peer.state === 'snapshot' || peer.wantsState));
}
