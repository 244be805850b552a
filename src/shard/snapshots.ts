/**
 * Group snapshots between nodes: the rows of applied state as one LMDB read transaction shows them, so appends go on
 * meanwhile. The receiver writes them into the other half of the group's key space; the half changes with one put.
 */
import { SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX, WRITE_UNIT_BYTES } from '../base/limits.ts';
import { decodeAddresses, encodeAddresses, withAddresses } from '../raft/addresses.ts';
import { decodeConfiguration } from '../raft/configuration.ts';
import type { SnapshotMeta, SnapshotRequest } from '../raft/types.ts';
import type { Group } from '../group/group.ts';
import { type IncomingSnapshot, type Log, type PeerPort, type ShardStorage, StorageFullError } from './ports.ts';

/** Heartbeats wait while a chunk passes, also on a thin link; large against its head. */
const CHUNK_BYTES = 32 * 1024;

/** A snapshot that raft wants sent. */
export interface Wanted {
  readonly group: Group;
  readonly message: SnapshotRequest;
}

interface Incoming {
  readonly snapshot: IncomingSnapshot;
  readonly message: SnapshotRequest;
  /** All rows are here and raft has the message. */
  stepped: boolean;
}

export class Snapshots {
  readonly #storage: ShardStorage;
  readonly #peers: PeerPort;
  readonly #log: Log;
  /** Asks for a turn soon. */
  readonly #wake: () => void;
  /** By group and node, in the order in which raft asked; a later request for the same replaces the earlier one. */
  readonly #wanted = new Map<string, Wanted>();
  /** Transfers under way by node. */
  readonly #sending = new Map<number, number>();
  /** Transfers under way by group: the log behind these indexes must stay. */
  readonly #pinned = new Map<number, number[]>();
  readonly #incoming = new Map<number, Incoming>();
  /**
   * Groups whose unused half of the key space may hold rows: what was there before the last snapshot when a crash or a full
   * disk came in between, or a part of a snapshot that never ended.
   */
  readonly #untidy: Set<number>;
  readonly counters = { sent: 0, received: 0, failed: 0 };

  constructor(storage: ShardStorage, groups: readonly number[], peers: PeerPort, log: Log, wake: () => void) {
    this.#storage = storage;
    this.#peers = peers;
    this.#log = log;
    this.#wake = wake;
    this.#untidy = new Set(groups);
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

  /** `metadata` as `send` makes it; copied. */
  begin(snapshot: IncomingSnapshot, request: SnapshotRequest, metadata: Uint8Array): void {
    const message = withMetadata(request, metadata);
    // Raft was told of a complete one: its rows must stay until the commit that makes them the group's state.
    const before = this.#incoming.get(snapshot.group);
    if (
      message === undefined ||
      before?.stepped === true ||
      !this.#hasRoom(() => this.#storage.clearStage(snapshot.group))
    ) {
      if (message === undefined) {
        this.#log('error', `refused a snapshot: unreadable, or usage not in units of ${WRITE_UNIT_BYTES} bytes`, {
          group: snapshot.group,
          from: snapshot.node,
        });
      }
      this.#peers.snapshotResult(snapshot, 'failed');
      return;
    }
    this.#incoming.set(snapshot.group, { snapshot, message, stepped: false });
    this.#untidy.add(snapshot.group);
    this.#log('info', 'receiving a snapshot', {
      group: snapshot.group,
      from: snapshot.node,
      index: message.snapshot.index,
    });
  }

  chunk(snapshot: IncomingSnapshot, rows: Uint8Array): void {
    if (this.#incoming.get(snapshot.group)?.snapshot !== snapshot) return;
    if (this.#hasRoom(() => this.#storage.stage(snapshot.group, rows))) return;
    this.#incoming.delete(snapshot.group);
    this.counters.failed++;
    this.#peers.snapshotResult(snapshot, 'failed');
  }

  /** All rows are staged: raft decides whether they are wanted; installed() or refused() follow. */
  complete(snapshot: IncomingSnapshot, group: Group): void {
    const incoming = this.#incoming.get(snapshot.group);
    if (incoming?.snapshot !== snapshot) return;
    incoming.stepped = true;
    group.raft.step(incoming.message);
  }

  aborted(snapshot: IncomingSnapshot): void {
    const incoming = this.#incoming.get(snapshot.group);
    // Once raft was told, only the end of the turn ends it.
    if (incoming?.snapshot === snapshot && !incoming.stepped) this.#incoming.delete(snapshot.group);
  }

  /** The staged rows are the group's state now. */
  installed(group: number): void {
    const incoming = this.#incoming.get(group);
    if (incoming === undefined) return;
    this.#incoming.delete(group);
    this.counters.received++;
    this.#peers.snapshotResult(incoming.snapshot, 'installed');
  }

  /** A transfer into this group is under way. */
  receives(group: number): boolean {
    return this.#incoming.has(group);
  }

  /** After a turn: what raft was told of and did not take, because its log got there on its own, is over. */
  settle(hasRoom: boolean): void {
    for (const [group, incoming] of this.#incoming) if (incoming.stepped) this.installed(group);
    if (hasRoom) this.#tidy();
  }

  /** One commit a turn, at most. */
  #tidy(): void {
    for (const group of this.#untidy) {
      if (this.#incoming.has(group)) continue;
      let isClean = false;
      this.#hasRoom(() => {
        isClean = this.#storage.clearStage(group, 1);
      });
      if (isClean) this.#untidy.delete(group);
      return;
    }
  }

  /** False: the disk is full, and `write` did not happen as a whole. */
  #hasRoom(write: () => void): boolean {
    try {
      write();
      return true;
    } catch (error) {
      if (error instanceof StorageFullError) return false;
      throw error;
    }
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

/** What a snapshot says besides its message: the unit in which it counts usage (u32), then addresses. */
function encodeMetadata({ configuration }: SnapshotMeta): Uint8Array {
  const addresses = encodeAddresses(configuration.addresses);
  const metadata = new Uint8Array(4 + addresses.length);
  new DataView(metadata.buffer).setUint32(0, WRITE_UNIT_BYTES, true);
  metadata.set(addresses, 4);
  return metadata;
}

/** Undefined: not metadata, or of a node whose counters cannot be added to ours. */
function withMetadata(message: SnapshotRequest, metadata: Uint8Array): SnapshotRequest | undefined {
  if (metadata.length < 4) return undefined;
  const unit = new DataView(metadata.buffer, metadata.byteOffset, 4).getUint32(0, true);
  const addresses = decodeAddresses(metadata.subarray(4));
  if (unit !== WRITE_UNIT_BYTES || addresses === undefined) return undefined;
  const { snapshot } = message;
  return { ...message, snapshot: { ...snapshot, configuration: withAddresses(snapshot.configuration, addresses) } };
}

/** Not when another node leads by now, or the peer got the entries in another way, or left. */
function isStillWanted({ raft, leads }: Group, node: number): boolean {
  return leads && raft.peers().some((peer) => peer.node === node && peer.state === 'snapshot');
}

/** The configuration in a group's state; `initial` before the first change. */
export function stateConfiguration(encoded: Uint8Array): ReturnType<typeof decodeConfiguration> | undefined {
  return encoded.length === 0 ? undefined : decodeConfiguration(encoded);
}
