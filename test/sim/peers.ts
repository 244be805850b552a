/**
 * The links of one run of a node: src/peer with the sockets taken out. Outbox, forwards and both ends of snapshots are
 * the real ones, and what travels are the real frames.
 */
import { newPeerCounters } from '../../src/peer/counters.ts';
import type { Runtime } from '../../src/base/runtime.ts';
import type { Forward } from '../../src/peer/codec/forward.ts';
import { Egress } from '../../src/peer/egress.ts';
import { ForwardOutbox } from '../../src/peer/forward-outbox.ts';
import { Forwards } from '../../src/peer/forwards.ts';
import { IncomingForwards } from '../../src/peer/incoming-forwards.ts';
import { PEER_LIMITS } from '../../src/peer/limits.ts';
import type { PeerLink } from '../../src/peer/link.ts';
import type { Session } from '../../src/peer/listener.ts';
import { Outbox } from '../../src/peer/outbox.ts';
import type { PeerHandler } from '../../src/peer/peers.ts';
import { PIECE_BYTES_MAX, PRIORITY_CONTROL, type Priority, priorityOf } from '../../src/peer/send-queue.ts';
import { onSnapshotFrame } from '../../src/peer/snapshot-frames.ts';
import { SnapshotReceiver } from '../../src/peer/snapshot-receiver.ts';
import { SnapshotSender } from '../../src/peer/snapshot-sender.ts';
import type { Message, GroupSnapshotRequest } from '../../src/raft/types.ts';
import type {
  ForwardOrigin,
  IncomingSnapshot,
  PeerPort,
  SnapshotSending,
  SnapshotSource,
} from '../../src/shard/ports.ts';
import { PROTOCOL_VERSION } from '../../src/peer/codec/handshake.ts';
import { decodeForwardReplies } from '../../src/peer/codec/forward.ts';
import {
  FRAME_KIND,
  FRAME_HEAD_BYTES,
  LARGE_PAYLOAD_BYTES_MAX,
  checkFrame,
  frameKind,
} from '../../src/peer/codec/frame.ts';
import { FrameReader } from '../../src/peer/codec/frame-reader.ts';
import { decodeRaftFrame } from '../../src/peer/codec/raft-frame.ts';
import { encodeSnapshotAck } from '../../src/peer/codec/snapshot-transfer.ts';
import type { Connection, Network } from './network.ts';

/** A stalled snapshot blocks the next one; the liveness phase should not have to wait a minute for that. */
export const SIM_LIMITS = { ...PEER_LIMITS, snapshotStallMs: 10_000 };

/** The way to one node; the parts of a Link that outbox and snapshots use. */
class SimLink {
  readonly node: number;
  connection: Connection | undefined;
  readonly #network: Network;
  /** The egress of the real links; undefined: everything is sent immediately. */
  readonly #egress: Egress | undefined;
  #queue: Uint8Array[] = [];

  constructor(node: number, network: Network, egress: Egress | undefined) {
    this.node = node;
    this.#network = network;
    this.#egress = egress;
    if (egress !== undefined) egress.takesPieces = true;
  }

  get repairs(): boolean {
    return true;
  }

  get takesRequestPieces(): boolean {
    return this.#egress !== undefined;
  }

  get queuedBytes(): number {
    return this.#egress?.queue.bytes ?? 0;
  }

  get connected(): boolean {
    return this.connection !== undefined;
  }

  send(frame: Uint8Array, priority: Priority = priorityOf(frame)): boolean {
    if (this.connection === undefined) return false;
    if (this.#egress !== undefined) {
      if (frameKind(frame) === FRAME_KIND.raft && !this.#network.fits(this.connection, frame)) return true;
      if (priority === PRIORITY_CONTROL) this.#network.noteUrgent(this.connection, frame);
      const isSmall = frame.length <= PIECE_BYTES_MAX;
      if (isSmall && frameKind(frame) === FRAME_KIND.forward) this.#network.noteRequest(this.connection, frame);
      return this.#egress.push(frame, priority);
    }
    this.#queue.push(frame);
    return true;
  }

  sendLarge(request: Forward): boolean {
    return this.connection !== undefined && this.#egress?.queue.pushLarge(request) === true;
  }

  flush(): void {
    const { connection } = this;
    if (connection === undefined) return;
    for (let frame = this.#next(connection); frame !== undefined; frame = this.#next(connection)) {
      this.#network.send(connection, frame, frameKind(frame) === FRAME_KIND.raft);
    }
  }

  pong(nowMs: number): void {
    this.#egress?.onPong(nowMs);
    this.flush();
  }

  tick(nowMs: number): void {
    this.#egress?.tick(nowMs);
  }

  #next(connection: Connection): Uint8Array | undefined {
    return this.#egress === undefined ? this.#queue.shift() : this.#egress.next(connection.from.nowMs);
  }

  lost(): void {
    this.connection = undefined;
    this.#queue = [];
    this.#egress?.clear();
  }

  /** Sound: its receivers use nothing else of a link. */
  get asLink(): PeerLink {
    return this as unknown as PeerLink;
  }
}

export class SimPeers implements PeerPort {
  readonly #node: number;
  readonly #boot: number;
  readonly #network: Network;
  readonly #isPaced: boolean;
  readonly #handler: PeerHandler;
  readonly #links = new Map<number, SimLink>();
  readonly #sessions = new Map<Connection, Session>();
  /** Large frames that come in pieces. */
  readonly #large = new Map<Connection, FrameReader>();
  readonly #outbox = new Outbox(SIM_LIMITS.raftFrameBytes, newPeerCounters());
  readonly #forwards: Forwards;
  readonly #forwarding = new ForwardOutbox((correlation) => this.#forwards.unsent(correlation));
  readonly #incoming: IncomingForwards;
  readonly #sending: SnapshotSender;
  readonly #receiving: SnapshotReceiver;
  /** Looks at every message before it leaves. */
  onSend: (to: number, group: number, message: Message) => void = () => {};

  constructor(
    node: number,
    boot: number,
    network: Network,
    runtime: Runtime,
    handler: PeerHandler,
    pacing: 'paced' | 'at once',
  ) {
    this.#isPaced = pacing === 'paced';
    this.#node = node;
    this.#boot = boot;
    this.#network = network;
    this.#handler = handler;
    this.#forwards = new Forwards(SIM_LIMITS, runtime);
    this.#incoming = new IncomingForwards(handler, () => true);
    this.#sending = new SnapshotSender(SIM_LIMITS, runtime, newPeerCounters());
    this.#receiving = new SnapshotReceiver(handler, (session, ack) => {
      const link = this.#link(session.peer.node);
      if (link.send(encodeSnapshotAck(ack))) link.flush();
    });
  }

  version(): number {
    return PROTOCOL_VERSION;
  }

  connected(node: number): boolean {
    return this.#link(node).connected;
  }

  sendRaft(node: number, group: number, message: Message): void {
    this.onSend(node, group, message);
    const link = this.#link(node);
    if (link.connected) this.#outbox.add(link.asLink, group, message);
  }

  forward(node: number, group: number, bytes: Uint8Array, onReply: (answer: Uint8Array | undefined) => void): boolean {
    const link = this.#link(node);
    if (!link.connected) return false;
    const correlation = this.#forwards.add(node, 0, onReply);
    if (correlation === undefined) return false;
    this.#forwarding.forward(link.asLink, { correlation, group, bytes });
    return true;
  }

  reply({ node, boot, correlation }: ForwardOrigin, bytes: Uint8Array): boolean {
    const link = this.#link(node);
    if (link.connection?.to.boot !== boot) return false;
    this.#forwarding.reply(link.asLink, boot, { correlation, bytes });
    return true;
  }

  sendSnapshot(
    node: number,
    group: number,
    message: GroupSnapshotRequest,
    metadata: Uint8Array,
    source: SnapshotSource,
  ): SnapshotSending | undefined {
    return this.#sending.send(this.#link(node).asLink, group, message, metadata, source);
  }

  /** The simulated network knows nodes by number. */
  setJoined(): void {}

  snapshotResult(snapshot: IncomingSnapshot, status: 'installed' | 'failed'): boolean {
    return this.#receiving.result(snapshot, status);
  }

  paceSnapshot(snapshot: IncomingSnapshot, pace: 'hold' | 'resume'): void {
    this.#receiving.pace(snapshot, pace);
  }

  flush(): void {
    this.#forwarding.seal();
    this.#outbox.seal();
    for (const link of this.#links.values()) link.flush();
  }

  pong(connection: Connection): void {
    const link = this.#link(connection.to.id);
    if (link.connection !== connection) return;
    link.pong(connection.from.nowMs);
    this.#sending.pump();
  }

  /** About once a second. */
  expire(): void {
    for (const link of this.#links.values()) if (link.connection !== undefined) link.tick(link.connection.from.nowMs);
    this.#forwards.expire();
    this.#sending.expire();
  }

  linkUp(connection: Connection): void {
    const link = this.#link(connection.to.id);
    // The other end has restarted, and that showed before the loss of the old connection did.
    if (link.connection !== undefined) this.linkDown(link.connection);
    link.connection = connection;
    this.#handler.onLinkUp(connection.to.id, 0);
  }

  linkDown(connection: Connection): void {
    const link = this.#link(connection.to.id);
    if (link.connection !== connection) return;
    link.lost();
    this.#outbox.forget(link.asLink);
    this.#forwarding.forget(link.asLink);
    this.#sending.onLost(link.asLink);
    this.#forwards.lost(link.node, 0);
    this.#handler.onLinkDown(link.node, 0);
  }

  sessionEnd(connection: Connection): void {
    const session = this.#sessions.get(connection);
    if (session === undefined) return;
    this.#sessions.delete(connection);
    this.#large.delete(connection);
    this.#incoming.onSessionEnd(session);
    this.#receiving.onSessionEnd(session);
  }

  /** Throws when the frame makes no sense: none of our own may. */
  frame(connection: Connection, frame: Uint8Array): void {
    const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
    const kind = checkFrame(view, 0, frame.length);
    if (!this.#dispatch(connection, kind, frame.subarray(FRAME_HEAD_BYTES))) {
      throw new Error(`node ${this.#node} cannot read a frame of kind ${kind}`);
    }
    // The buffer of a socket is used again.
    frame.fill(0xa5);
  }

  #dispatch(connection: Connection, kind: number | string, payload: Uint8Array): boolean {
    const session = this.#session(connection);
    const { node } = session.peer;
    if (kind === FRAME_KIND.ping) {
      this.#network.pong(connection);
      return true;
    }
    if (kind === FRAME_KIND.piece) return this.#takePiece(connection, payload);
    if (kind === FRAME_KIND.raft) {
      return decodeRaftFrame(payload, node, this.#node, (group, message) => this.#handler.onRaft(group, message));
    }
    if (kind === FRAME_KIND.forward) return this.#incoming.frame(session, payload);
    if (kind === FRAME_KIND.forwardPiece) return this.#incoming.piece(session, payload);
    if (kind === FRAME_KIND.forwardReply) {
      return decodeForwardReplies(payload, (boot, correlation, bytes) => {
        if (boot === this.#boot) this.#forwards.answer(node, correlation, bytes);
      });
    }
    const ends = {
      node: this.#node,
      boot: this.#boot,
      sending: this.#sending,
      receiving: this.#receiving,
      hasGroup: () => true,
    };
    return typeof kind === 'number' && onSnapshotFrame(ends, session, kind, payload);
  }

  #takePiece(connection: Connection, piece: Uint8Array): boolean {
    let reader = this.#large.get(connection);
    if (reader === undefined) {
      reader = new FrameReader(LARGE_PAYLOAD_BYTES_MAX);
      this.#large.set(connection, reader);
    }
    let makesSense = true;
    const fault = reader.push(piece, (kind, payload) => {
      makesSense &&= kind !== FRAME_KIND.piece && kind !== FRAME_KIND.ping && this.#dispatch(connection, kind, payload);
    });
    return fault === undefined && makesSense;
  }

  #link(node: number): SimLink {
    let link = this.#links.get(node);
    if (link === undefined) {
      link = new SimLink(node, this.#network, this.#isPaced ? new Egress(SIM_LIMITS.queueBytesMax) : undefined);
      this.#links.set(node, link);
    }
    return link;
  }

  #session(connection: Connection): Session {
    let session = this.#sessions.get(connection);
    if (session === undefined) {
      const { id, boot } = connection.from;
      session = {
        peer: { clusterId: 'sim', groupCount: 0, node: id, shard: 0, shardCount: 1, boot },
        fail: () => undefined,
      };
      this.#sessions.set(connection, session);
    }
    return session;
  }
}
