/** Incoming snapshots: order, gaps and ends are checked here; the handler processes the bytes. */
import type { SnapshotAck, SnapshotBegin, SnapshotChunk, SnapshotEnd } from './codec/snapshot-transfer.ts';
import { SNAPSHOT_ACK_BYTES } from './limits.ts';
import type { Session } from './listener.ts';
import type { IncomingSnapshot, SnapshotHandler } from '../shard/ports.ts';

/**
 * A transfer under way outlives a change of leader: what it brings is committed, and one that begins again with each
 * leader may never end. It gives way to the third that comes since its last chunk, because its end can be lost.
 */
const REFUSED_WITHOUT_A_CHUNK_MAX = 2;

class Incoming implements IncomingSnapshot {
  readonly node: number;
  readonly group: number;
  readonly transfer: number;
  readonly session: Session;
  receivedBytes = 0;
  ackedBytes = 0;
  onHold = false;
  /** Transfers of other nodes that were refused for it since its last chunk. */
  refused = 0;
  /** Everything has arrived and only the result is missing: the connection is no longer needed. */
  complete = false;

  constructor(session: Session, group: number, transfer: number) {
    this.session = session;
    this.node = session.peer.node;
    this.group = group;
    this.transfer = transfer;
  }

  /** False: this one gives way to that of another node. This node itself causes a hold, and the wait for the result. */
  refuseAnother(): boolean {
    return this.onHold || this.complete || ++this.refused <= REFUSED_WITHOUT_A_CHUNK_MAX;
  }
}

export class SnapshotReceiver {
  readonly #handler: SnapshotHandler;
  readonly #sendAck: (session: Session, ack: SnapshotAck) => void;
  /** By group: a group receives one snapshot at a time. */
  readonly #incoming = new Map<number, Incoming>();

  constructor(handler: SnapshotHandler, sendAck: (session: Session, ack: SnapshotAck) => void) {
    this.#handler = handler;
    this.#sendAck = sendAck;
  }

  onBegin(session: Session, { group, transfer, message, metadata }: SnapshotBegin): void {
    const before = this.#incoming.get(group);
    const incoming = new Incoming(session, group, transfer);
    if (before !== undefined) {
      if (before.node !== incoming.node && before.refuseAnother()) return this.#ack(incoming, 'failed');
      this.#abort(before);
      this.#ack(before, 'failed');
    }
    this.#incoming.set(group, incoming);
    this.#handler.onSnapshotBegin(incoming, message, metadata);
  }

  onChunk(session: Session, { group, transfer, offset, bytes }: SnapshotChunk): void {
    const incoming = this.#find(session, group, transfer);
    if (incoming === undefined) return;
    if (incoming.complete || offset !== incoming.receivedBytes) {
      this.#abort(incoming);
      this.#ack(incoming, 'failed');
      return;
    }
    incoming.receivedBytes += bytes.length;
    incoming.refused = 0;
    this.#handler.onSnapshotChunk(incoming, bytes);
    if (incoming.onHold || !this.#isCurrent(incoming)) return;
    if (incoming.receivedBytes - incoming.ackedBytes >= SNAPSHOT_ACK_BYTES) this.#ackAll(incoming);
  }

  onEnd(session: Session, { group, transfer, totalBytes, complete }: SnapshotEnd): void {
    const incoming = this.#find(session, group, transfer);
    if (incoming === undefined) return;
    if (complete && !incoming.complete && totalBytes === incoming.receivedBytes) {
      incoming.complete = true;
      this.#handler.onSnapshotComplete(incoming);
      return;
    }
    this.#abort(incoming);
    if (complete) this.#ack(incoming, 'failed');
  }

  onSessionEnd(session: Session): void {
    for (const incoming of this.#incoming.values()) {
      if (incoming.session === session && !incoming.complete) this.#abort(incoming);
    }
  }

  /** hold: incoming bytes are not processed for now. The sender gets keep-alives, and waits when its window is full. */
  pace(snapshot: IncomingSnapshot, pace: 'hold' | 'resume'): void {
    const incoming = this.#incoming.get(snapshot.group);
    if (incoming === undefined || incoming !== snapshot) return;
    const wasOnHold = incoming.onHold;
    incoming.onHold = pace === 'hold';
    if (incoming.onHold) this.#ack(incoming, 'receiving', incoming.ackedBytes);
    else if (wasOnHold) this.#ackAll(incoming);
  }

  /** The result here, possibly in the middle of the transfer. False: it is over already. */
  result(snapshot: IncomingSnapshot, status: 'installed' | 'failed'): boolean {
    const incoming = this.#incoming.get(snapshot.group);
    if (incoming === undefined || incoming !== snapshot) return false;
    this.#incoming.delete(snapshot.group);
    this.#ack(incoming, status);
    return true;
  }

  #find(session: Session, group: number, transfer: number): Incoming | undefined {
    const incoming = this.#incoming.get(group);
    // Chunks of a transfer that ended here still arrive for a moment.
    return incoming?.session === session && incoming.transfer === transfer ? incoming : undefined;
  }

  #isCurrent(incoming: Incoming): boolean {
    return this.#incoming.get(incoming.group) === incoming;
  }

  #abort(incoming: Incoming): void {
    this.#incoming.delete(incoming.group);
    this.#handler.onSnapshotAborted(incoming);
  }

  #ackAll(incoming: Incoming): void {
    incoming.ackedBytes = incoming.receivedBytes;
    this.#ack(incoming, 'receiving');
  }

  #ack(incoming: Incoming, status: SnapshotAck['status'], receivedBytes = incoming.receivedBytes): void {
    const { session, group, transfer } = incoming;
    this.#sendAck(session, { group, transfer, boot: session.peer.boot, receivedBytes, status });
  }
}
