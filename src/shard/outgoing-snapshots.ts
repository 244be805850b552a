/**
 * Group snapshots for other nodes: the rows of applied state as one LMDB read transaction shows them, so appends go on meanwhile.
 * What the receiver does with them: incoming-snapshots.ts.
 */
import { SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX } from '../base/limits.ts';
import type { SnapshotMeta, SnapshotRequest } from '../raft/types.ts';
import type { Group } from '../group/group.ts';
import type { Log, PeerPort, ShardStorage } from './ports.ts';
import { encodeMetadata } from './snapshot-metadata.ts';

/** Heartbeats wait while a chunk passes, also on a thin link; large against its head. */
const CHUNK_BYTES = 32 * 1024;

/** A snapshot that raft wants sent. */
export interface Wanted {
  readonly group: Group;
  readonly message: SnapshotRequest;
}

type Port = Pick<PeerPort, 'sendSnapshot'>;

export class OutgoingSnapshots {
  readonly #storage: ShardStorage;
  readonly #peers: Port;
  readonly #log: Log;
  /** Asks for a turn soon. */
  readonly #wake: () => void;
  /** By group and node, in the order in which raft asked; a later request for the same replaces the earlier one. */
  readonly #wanted = new Map<string, Wanted>();
  /** Transfers under way by node. */
  readonly #sending = new Map<number, number>();
  /** Transfers under way by group: the log behind these indexes must stay. */
  readonly #pinned = new Map<number, number[]>();
  readonly counters = { sent: 0 };

  constructor(storage: ShardStorage, peers: Port, log: Log, wake: () => void) {
    this.#storage = storage;
    this.#peers = peers;
    this.#log = log;
    this.#wake = wake;
  }

  /** Oldest applied index whose following log entries a transfer still needs; Infinity when none. */
  pinned(group: number): number {
    return Math.min(Infinity, ...(this.#pinned.get(group) ?? []));
  }

  /** It is sent when its turn comes; until then raft sends nothing else to that node. */
  want(group: Group, message: SnapshotRequest): void {
    this.#wanted.set(`${group.id}/${message.to}`, { group, message });
  }

  get waiting(): number {
    return this.#wanted.size;
  }

  /** Those whose turn it is. The caller checkpoints their groups, and then sends them or tells raft that it cannot. */
  due(): Wanted[] {
    if (this.#wanted.size === 0) return [];
    const due: Wanted[] = [];
    const sending = new Map(this.#sending);
    let free = SNAPSHOTS_SENT_MAX - [...sending.values()].reduce((sum, count) => sum + count, 0);
    for (const [key, wanted] of this.#wanted) {
      if (free <= 0) break;
      const { group, message } = wanted;
      if (!isStillWanted(group, message.to)) {
        this.#wanted.delete(key);
        continue;
      }
      const toNode = sending.get(message.to) ?? 0;
      if (toNode >= SNAPSHOTS_SENT_PER_NODE_MAX) continue;
      this.#wanted.delete(key);
      sending.set(message.to, toNode + 1);
      free--;
      due.push(wanted);
    }
    return due;
  }

  /** Starts a transfer of the group's state, which the caller has just checkpointed. */
  send(group: Group, message: SnapshotRequest): void {
    const { state, raft } = group;
    const index = state.appliedIndex;
    const meta: SnapshotMeta = { index, term: state.appliedTerm, configuration: raft.configurationAt(index) };
    const metadata = encodeMetadata(meta);
    const reader = this.#storage.openSnapshot(group.id);
    this.#pin(group.id, index);
    this.#count(message.to, 1);
    const started = this.#peers.sendSnapshot(message.to, group.id, { ...message, snapshot: meta }, metadata, {
      next: () => reader.next(CHUNK_BYTES),
      done: (outcome) => {
        reader.close();
        this.#unpin(group.id, index);
        this.#count(message.to, -1);
        if (outcome === 'installed') {
          this.counters.sent++;
          raft.snapshotInstalled(message.to, index);
        } else raft.snapshotFailed(message.to);
        this.#log('info', 'snapshot sent', { group: group.id, to: message.to, index, outcome });
        if (this.#wanted.size > 0) this.#wake();
      },
    });
    if (started !== undefined) return;
    reader.close();
    this.#unpin(group.id, index);
    this.#count(message.to, -1);
    raft.snapshotFailed(message.to);
  }

  #count(node: number, change: number): void {
    this.#sending.set(node, (this.#sending.get(node) ?? 0) + change);
  }

  #pin(group: number, index: number): void {
    this.#pinned.set(group, [...(this.#pinned.get(group) ?? []), index]);
  }

  #unpin(group: number, index: number): void {
    const left = (this.#pinned.get(group) ?? []).slice();
    left.splice(left.indexOf(index), 1);
    if (left.length === 0) this.#pinned.delete(group);
    else this.#pinned.set(group, left);
  }
}

/** Not when another node leads by now, or the peer got the entries in another way, or left. */
function isStillWanted({ raft, leads }: Group, node: number): boolean {
  return leads && raft.peers().some((peer) => peer.node === node && peer.state === 'snapshot');
}
