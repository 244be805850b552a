/**
 * Snapshots that other nodes send to this one. Their rows go into the half of the group's key space that its state does
 * not use; raft decides whether to use them, and the half changes with one put (store/shard-store.ts).
 *
 * That half may hold rows: the state before the last snapshot, or part of a snapshot that never ended. They are deleted
 * a few at a time between turns, because every group of the shard waits meanwhile; the transfer is on hold until the
 * half is empty. It is too while a checkpoint hangs, because each commit of rows would wait for that.
 */
import { WRITE_UNIT_BYTES } from '../base/limits.ts';
import type { GroupSnapshotRequest } from '../raft/types.ts';
import type { Group } from '../group/group.ts';
import {
  type IncomingSnapshot,
  type Log,
  type PeerPort,
  type ShardStorage,
  type SnapshotHandler,
  StorageFullError,
} from './ports.ts';
import { withMetadata } from './snapshot-metadata.ts';

/**
 * Rows of one commit, in bytes. A commit costs an fsync, for which every group of the shard waits, and pieces come in
 * 32 KiB. A transfer holds this much in memory, plus one piece.
 */
export const STAGE_BYTES = 256 * 1024;
/** Rows that wait while a transfer is on hold, in bytes: twice what a sender has in flight unacknowledged. */
export const HELD_BYTES_MAX = 4 * 1024 * 1024;
/** Interval of keep-alives to a waiting sender: a fraction of its silence timeout. */
const HOLD_MS = 5000;

type Port = Pick<PeerPort, 'snapshotResult' | 'paceSnapshot'>;

interface Incoming {
  readonly snapshot: IncomingSnapshot;
  readonly message: GroupSnapshotRequest;
  /** Rows that wait while it is on hold, or for more to fill a commit. */
  held: Uint8Array[];
  heldBytes: number;
  isHalfEmpty: boolean;
  /** When the sender was told to wait last; undefined: it does not. */
  heldAtMs: number | undefined;
  /** All rows have arrived; raft is told once they are in place. */
  complete: Group | undefined;
  /** All rows are in place and raft has the message. */
  stepped: boolean;
}

export interface IncomingOptions {
  readonly storage: ShardStorage;
  readonly groups: readonly number[];
  readonly group: (id: number) => Group | undefined;
  readonly peers: Port;
  readonly log: Log;
  /** Asks for a turn soon. */
  readonly wake: () => void;
  /** A checkpoint hangs, for which a commit would wait. */
  readonly isStuck: () => boolean;
}

export class IncomingGroupSnapshots implements SnapshotHandler {
  readonly #options: IncomingOptions;
  readonly #incoming = new Map<number, Incoming>();
  /** Groups whose unused half may hold rows. */
  readonly #untidy: Set<number>;
  #clockMs = 0;
  readonly counters = { received: 0, failed: 0 };

  constructor(options: IncomingOptions) {
    this.#options = options;
    this.#untidy = new Set(options.groups);
  }

  /** `metadata` is the sender's; copied. */
  onSnapshotBegin(snapshot: IncomingSnapshot, request: GroupSnapshotRequest, metadata: Uint8Array): void {
    const { group, node: from } = snapshot;
    const message = withMetadata(request, metadata);
    if (message === undefined) {
      const why = `refused a snapshot: unreadable, or usage not in units of ${WRITE_UNIT_BYTES} bytes`;
      this.#options.log('error', why, { group, from });
    }
    // Raft received a complete one: its rows must stay until the commit that makes them the group's state.
    if (message === undefined || this.#incoming.get(group)?.stepped === true) {
      this.#options.peers.snapshotResult(snapshot, 'failed');
      return;
    }
    const isHalfEmpty = !this.#untidy.has(group);
    const about = { heldBytes: 0, heldAtMs: undefined, complete: undefined, stepped: false };
    const incoming: Incoming = { snapshot, message, held: [], isHalfEmpty, ...about };
    this.#incoming.set(group, incoming);
    if (!isHalfEmpty) {
      if (!this.#options.isStuck()) this.#tidy(group);
      if (this.#incoming.get(group) !== incoming) return;
      if (!incoming.isHalfEmpty) this.#hold(incoming);
    }
    this.#untidy.add(group);
    this.#options.log('info', 'receiving a snapshot', { group, from, index: message.snapshot.index });
  }

  onSnapshotChunk(snapshot: IncomingSnapshot, rows: Uint8Array): void {
    const incoming = this.#incoming.get(snapshot.group);
    if (incoming?.snapshot !== snapshot) return;
    incoming.heldBytes += rows.length;
    if (incoming.heldBytes > HELD_BYTES_MAX) return this.#fail(incoming);
    incoming.held.push(rows.slice());
    if (incoming.heldBytes < STAGE_BYTES || !incoming.isHalfEmpty || this.#mustWait(incoming)) return;
    this.#stage(incoming);
  }

  /** Where the snapshot ends that is under way to the group; Infinity: there is none. */
  endOf(group: number): number {
    return this.#incoming.get(group)?.message.snapshot.index ?? Infinity;
  }

  /** All rows have arrived: raft decides whether to use them; installed() follows in any case. */
  onSnapshotComplete(snapshot: IncomingSnapshot): void {
    const incoming = this.#incoming.get(snapshot.group);
    if (incoming?.snapshot !== snapshot) return;
    incoming.complete = this.#options.group(snapshot.group);
    this.#step(incoming);
  }

  onSnapshotAborted(snapshot: IncomingSnapshot): void {
    const incoming = this.#incoming.get(snapshot.group);
    // After raft was told, only the end of the turn ends it.
    if (incoming?.snapshot !== snapshot || incoming.stepped) return;
    this.#incoming.delete(snapshot.group);
    this.#options.log('info', 'a snapshot ended before all of it was here: the log of its sender says why', {
      group: snapshot.group,
      from: snapshot.node,
      receivedBytes: snapshot.receivedBytes,
    });
  }

  /** The staged rows are the group's state now. */
  installed(group: number): void {
    const incoming = this.#incoming.get(group);
    if (incoming === undefined) return;
    this.#incoming.delete(group);
    this.counters.received++;
    this.#options.peers.snapshotResult(incoming.snapshot, 'installed');
  }

  /** After a turn: ends a snapshot that raft received but did not use, because its log reached the index by itself. */
  settle(hasRoom: boolean, clockMs: number): void {
    this.#clockMs = clockMs;
    const isStuck = this.#options.isStuck();
    let urgent: Incoming | undefined;
    for (const [group, incoming] of this.#incoming) {
      // A state that does not fit is sent again later.
      if (incoming.stepped && incoming.complete?.raft.wantsState === true) this.#fail(incoming);
      else if (incoming.stepped) this.installed(group);
      else if (incoming.heldAtMs === undefined) continue;
      else if (incoming.isHalfEmpty && !isStuck) this.#release(incoming);
      else {
        if (!incoming.isHalfEmpty) urgent ??= incoming;
        if (clockMs - incoming.heldAtMs >= HOLD_MS) this.#hold(incoming);
      }
    }
    if (urgent !== undefined && !hasRoom) this.#fail(urgent);
    if (!hasRoom || isStuck) return;
    if (urgent !== undefined) {
      this.#tidy(urgent.snapshot.group);
      this.#options.wake();
      return;
    }
    // No sender waits for the others.
    for (const group of this.#untidy) if (!this.#incoming.has(group)) return this.#tidy(group);
  }

  /** One step, in one commit. */
  #tidy(group: number): void {
    const incoming = this.#incoming.get(group);
    let isClean = false;
    const isDone = this.#hasRoom(() => (isClean = this.#options.storage.clearStage(group)));
    if (isClean) this.#untidy.delete(group);
    if (incoming === undefined) return;
    if (!isDone) return this.#fail(incoming);
    if (!isClean) return;
    incoming.isHalfEmpty = true;
    this.#untidy.add(group);
    this.#release(incoming);
  }

  /** Rows may be written: those that waited come first. */
  #release(incoming: Incoming): void {
    incoming.heldAtMs = undefined;
    if (incoming.heldBytes >= STAGE_BYTES && !this.#stage(incoming)) return;
    this.#options.peers.paceSnapshot(incoming.snapshot, 'resume');
    this.#step(incoming);
  }

  #hold(incoming: Incoming): void {
    incoming.heldAtMs = this.#clockMs;
    this.#options.peers.paceSnapshot(incoming.snapshot, 'hold');
  }

  #step(incoming: Incoming): void {
    if (incoming.complete === undefined || !incoming.isHalfEmpty || this.#mustWait(incoming)) return;
    if (incoming.heldBytes > 0 && !this.#stage(incoming)) return;
    incoming.stepped = true;
    incoming.complete.raft.step(incoming.message);
    this.#options.wake();
  }

  /** A checkpoint hangs: the transfer is on hold until settle() finds that it has ended. */
  #mustWait(incoming: Incoming): boolean {
    const isStuck = this.#options.isStuck();
    if (isStuck && incoming.heldAtMs === undefined) this.#hold(incoming);
    return isStuck;
  }

  /** Stages the held rows, in commits of about STAGE_BYTES. */
  #stage(incoming: Incoming): boolean {
    const { held } = incoming;
    incoming.held = [];
    incoming.heldBytes = 0;
    const isDone = this.#hasRoom(() => {
      for (const pieces of batchesOf(held)) this.#options.storage.stage(incoming.snapshot.group, pieces);
    });
    if (!isDone) this.#fail(incoming);
    return isDone;
  }

  #fail({ snapshot }: Incoming): void {
    this.#incoming.delete(snapshot.group);
    this.counters.failed++;
    this.#options.peers.snapshotResult(snapshot, 'failed');
  }

  /** False: the disk is full, and `write` was not done completely. */
  #hasRoom(write: () => void): boolean {
    try {
      write();
      return true;
    } catch (error) {
      if (error instanceof StorageFullError) return false;
      throw error;
    }
  }
}

function* batchesOf(pieces: readonly Uint8Array[]): Generator<readonly Uint8Array[]> {
  let batch: Uint8Array[] = [];
  let bytes = 0;
  for (const piece of pieces) {
    batch.push(piece);
    bytes += piece.length;
    if (bytes < STAGE_BYTES) continue;
    yield batch;
    [batch, bytes] = [[], 0];
  }
  if (batch.length > 0) yield batch;
}
