/**
 * Outgoing snapshots. A transfer reads its next chunk only when three bounds allow it: the receiver's window, the queue
 * of the link, and the rate. So memory stays at a window per transfer however large the state is, and a receiver that
 * writes slowly slows the sender down.
 */
import { assert } from '../base/assert.ts';
import { RowDamage } from '../base/row-damage.ts';
import type { GroupSnapshotRequest } from '../raft/types.ts';
import { encodeSnapshotBegin, encodeSnapshotChunk, encodeSnapshotEnd } from './codec/snapshot-transfer.ts';
import type { SnapshotAck } from './codec/snapshot-transfer.ts';
import type { PeerCounters } from './counters.ts';
import type { Runtime } from '../base/runtime.ts';
import { type PeerLimits, SNAPSHOT_CHUNK_BYTES_MAX } from './limits.ts';
import type { PeerLink } from './link.ts';
import type { SnapshotOutcome, SnapshotSending, SnapshotSource } from '../shard/ports.ts';

/** Burst size of the rate limit, in seconds. */
const BURST_SECONDS = 0.05;

interface Transfer extends SnapshotSending {
  readonly link: PeerLink;
  readonly group: number;
  readonly id: number;
  readonly source: SnapshotSource;
  sentBytes: number;
  ackedBytes: number;
  /** All chunks and the END are sent. */
  ended: boolean;
  heardAtMs: number;
}

export class SnapshotSender {
  readonly #limits: PeerLimits;
  readonly #runtime: Runtime;
  readonly #counters: PeerCounters;
  /** Transfers by group and node: Raft sends one at a time to a peer. */
  readonly #transfers = new Map<string, Transfer>();
  #nextId: number;
  #tokens = 0;
  #tokensAtMs: number;
  #cancelTimer: (() => void) | undefined;

  constructor(limits: PeerLimits, runtime: Runtime, counters: PeerCounters) {
    this.#limits = limits;
    this.#runtime = runtime;
    this.#counters = counters;
    this.#nextId = Math.floor(runtime.random() * 2 ** 32);
    this.#tokensAtMs = runtime.monotonicMs();
    this.#tokens = limits.snapshotBytesPerSecond * BURST_SECONDS;
  }

  /** Undefined: the link accepts nothing now, or such a transfer is running; `done` is not called. */
  send(
    link: PeerLink,
    group: number,
    message: GroupSnapshotRequest,
    metadata: Uint8Array,
    source: SnapshotSource,
  ): SnapshotSending | undefined {
    const key = keyOf(link.node, group);
    if (this.#transfers.has(key)) return undefined;
    const id = this.#nextId;
    this.#nextId = (id + 1) >>> 0;
    const begin = encodeSnapshotBegin({ group, transfer: id, message, metadata });
    if (!link.send(begin)) return undefined;
    const transfer: Transfer = {
      link,
      group,
      id,
      source,
      sentBytes: 0,
      ackedBytes: 0,
      ended: false,
      heardAtMs: this.#runtime.monotonicMs(),
      cancel: () => this.#cancel(transfer),
    };
    this.#transfers.set(key, transfer);
    this.#counters.raft_grpc_snapshot_requests++;
    this.#counters.raft_grpc_snapshot_request_bytes += begin.length;
    link.flush();
    // Asynchronous: `next` and `done` are never called before this function has returned.
    this.#wake(0);
    return transfer;
  }

  /** False: it refers to no transfer of ours. */
  onAck(node: number, ack: SnapshotAck): boolean {
    const transfer = this.#transfers.get(keyOf(node, ack.group));
    if (transfer === undefined || transfer.id !== ack.transfer) return false;
    transfer.heardAtMs = this.#runtime.monotonicMs();
    transfer.ackedBytes = Math.max(transfer.ackedBytes, Math.min(ack.receivedBytes, transfer.sentBytes));
    if (ack.status === 'receiving') this.pump();
    else this.#finish(transfer, ack.status === 'installed' && transfer.ended ? 'installed' : 'failed');
    return true;
  }

  onLost(link: PeerLink): void {
    for (const transfer of this.#transfers.values()) if (transfer.link === link) this.#finish(transfer, 'lost');
  }

  /** Ends transfers whose receiver has fallen silent. */
  expire(): void {
    const clockMs = this.#runtime.monotonicMs();
    for (const transfer of this.#transfers.values()) {
      if (clockMs - transfer.heardAtMs < this.#limits.snapshotStallMs) continue;
      this.#sayEnd(transfer, false);
      this.#finish(transfer, 'lost');
    }
  }

  stop(): void {
    this.#cancelTimer?.();
    for (const transfer of this.#transfers.values()) this.#finish(transfer, 'lost');
  }

  /** Sends what the bounds allow, one chunk of each transfer in turn. */
  pump(): void {
    this.#refill();
    for (let progress = true; progress;) {
      progress = false;
      for (const transfer of this.#transfers.values()) {
        if (!this.#mayAdd(transfer)) continue;
        if (this.#tokens <= 0) {
          const missing = -this.#tokens + 1;
          this.#wake(Math.ceil((1000 * missing) / this.#limits.snapshotBytesPerSecond));
          return;
        }
        this.#addChunk(transfer);
        progress = true;
      }
    }
  }

  #mayAdd({ ended, link, sentBytes, ackedBytes }: Transfer): boolean {
    const { snapshotWindowBytes, snapshotQueueBytes } = this.#limits;
    return !ended && sentBytes - ackedBytes < snapshotWindowBytes && link.queuedBytes < snapshotQueueBytes;
  }

  #addChunk(transfer: Transfer): void {
    const { link, group, id, sentBytes: offset, source } = transfer;
    const bytes = nextOf(source);
    if (bytes === 'damaged') {
      this.#sayEnd(transfer, false);
      return this.#finish(transfer, 'failed');
    }
    if (bytes === undefined) {
      transfer.ended = true;
      this.#sayEnd(transfer, true);
      return;
    }
    assert(bytes.length <= SNAPSHOT_CHUNK_BYTES_MAX, `a snapshot chunk of ${bytes.length} bytes`);
    if (this.#limits.snapshotBytesPerSecond > 0) this.#tokens -= bytes.length;
    transfer.sentBytes += bytes.length;
    this.#counters.raft_grpc_snapshot_payload_bytes += bytes.length;
    this.#counters.raft_grpc_snapshot_request_bytes += bytes.length;
    if (link.send(encodeSnapshotChunk({ group, transfer: id, offset, bytes }))) {
      link.flush();
      return;
    }
    // The queue is full of undroppable frames. The transfer has a hole, so it ends.
    this.#sayEnd(transfer, false);
    this.#finish(transfer, 'lost');
  }

  #sayEnd({ link, group, id, sentBytes }: Transfer, complete: boolean): void {
    link.send(encodeSnapshotEnd({ group, transfer: id, totalBytes: sentBytes, complete }));
    link.flush();
  }

  #cancel(transfer: Transfer): void {
    if (this.#transfers.get(keyOf(transfer.link.node, transfer.group)) !== transfer) return;
    this.#sayEnd(transfer, false);
    this.#finish(transfer, 'cancelled');
  }

  #finish(transfer: Transfer, outcome: SnapshotOutcome): void {
    this.#transfers.delete(keyOf(transfer.link.node, transfer.group));
    transfer.source.done(outcome);
  }

  #refill(): void {
    const rate = this.#limits.snapshotBytesPerSecond;
    const clockMs = this.#runtime.monotonicMs();
    if (rate === 0) this.#tokens = Infinity;
    else this.#tokens = Math.min(rate * BURST_SECONDS, this.#tokens + (rate * (clockMs - this.#tokensAtMs)) / 1000);
    this.#tokensAtMs = clockMs;
  }

  #wake(delayMs: number): void {
    if (this.#cancelTimer !== undefined) return;
    this.#cancelTimer = this.#runtime.setTimer(delayMs, () => {
      this.#cancelTimer = undefined;
      this.pump();
    });
  }
}

/** A state with a row that the disk changed goes to no other node. */
function nextOf(source: SnapshotSource): Uint8Array | 'damaged' | undefined {
  try {
    return source.next();
  } catch (error) {
    if (error instanceof RowDamage) return 'damaged';
    throw error;
  }
}

function keyOf(node: number, group: number): string {
  return `${node}/${group}`;
}
