/**
 * All links of one shard to the other nodes: entry and exit of Raft messages, forwarded requests and snapshots.
 *
 * Nothing is sent before `flush()`, which a turn calls at its end: it writes one frame per peer with the messages of
 * all groups. Handlers are called from socket events, between turns; they may call this object immediately.
 */
import { assert } from '../base/assert.ts';
import type { Message, GroupSnapshotRequest } from '../raft/types.ts';
import { decodeForwardReplies, forwardBytes } from './codec/forward.ts';
import { FRAME_KIND, FRAME_PAYLOAD_BYTES_MAX, type FrameKind } from './codec/frame.ts';
import type { PeerIdentity } from './codec/handshake.ts';
import { decodeRaftFrame } from './codec/raft-frame.ts';
import { encodeSnapshotAck } from './codec/snapshot-transfer.ts';
import type { Standing } from './codec/standing.ts';
import { AddressBook } from './address-book.ts';
import { type PeerCounters, addGauges, addLink, newPeerCounters } from './counters.ts';
import type { Runtime } from '../base/runtime.ts';
import { ForwardOutbox } from './forward-outbox.ts';
import { Forwards, type OnReply } from './forwards.ts';
import { IncomingForwards } from './incoming-forwards.ts';
import { PEER_LIMITS, type PeerLimits, checkLimits } from './limits.ts';
import { PeerLink } from './link.ts';
import type { Address } from '../base/address.ts';
import { PeerListener, type Session, type SessionCount } from './listener.ts';
import { LogLimiter } from './log-limiter.ts';
import { Outbox } from './outbox.ts';
import { LocalGroups, type PeerAddress, Routes } from './routes.ts';
import { type SnapshotEnds, onSnapshotFrame } from './snapshot-frames.ts';
import { SnapshotReceiver } from './snapshot-receiver.ts';
import { SnapshotSender } from './snapshot-sender.ts';
import { PeerTls, type PeerTlsSettings } from './tls.ts';
import type {
  Log,
  ForwardOrigin,
  IncomingSnapshot,
  PeerPort,
  SnapshotHandler,
  SnapshotSending,
  SnapshotSource,
} from '../shard/ports.ts';

export interface PeerHandler extends SnapshotHandler {
  /** `message.from` is authenticated and `message.to` is this node; its entries are its own. */
  onRaft(group: number, message: Message): void;
  /** `bytes` are overwritten after the call. Answer with `Peers.reply`, immediately, later, or not at all. */
  onForward(origin: ForwardOrigin, group: number, bytes: Uint8Array): void;
  /** A shard of another node has authenticated to us; called before any frame of it. Why it is not welcomed yet. */
  onHello?(peer: PeerIdentity): string | undefined;
  /**
   * We connected to it, and it has acted on the identity and memory we reported. Called before any frame to it. Why the
   * link must wait.
   */
  onWelcome?(peer: PeerIdentity): string | undefined;
  /** The connection to a shard of a node was opened or broke; this says nothing about the reverse connection. */
  onLinkUp(node: number, shard: number): void;
  onLinkDown(node: number, shard: number): void;
}

export interface PeersOptions {
  /** This shard. All shards of a node have the same boot, so that peers see one run of the process. */
  readonly self: PeerIdentity;
  /** This node's report to `node`: its own data directory, and what it remembers of that node's. */
  readonly standing?: (node: number) => Standing;
  /** The newest protocol version to speak; differs from ours only in tests. */
  readonly newest?: number;
  readonly secret: string;
  /** Undefined: links are not encrypted. */
  readonly tls?: PeerTlsSettings | undefined;
  /** Address of shard 0; this shard listens on port + shard (a free port for port 0). */
  readonly listen: Address;
  /** Other nodes; this node in the list is ignored. */
  readonly peers: readonly PeerAddress[];
  readonly handler: PeerHandler;
  readonly log: Log;
  /** The body of GET /__svc/leadership-shed on the cluster plane. */
  readonly shed: () => string;
  /** Whether this node reaches the cold store, for peers that ask; omitted without one. */
  readonly coldProbe?: (() => Promise<boolean>) | undefined;
  /** Told every second of other numbers than before. */
  readonly onSessions?: (sessions: SessionCount) => void;
  readonly limits?: Partial<PeerLimits>;
  readonly runtime: Runtime;
}

export class Peers implements PeerPort {
  readonly #self: PeerIdentity;
  readonly #groups: LocalGroups;
  readonly #options: PeersOptions;
  readonly #limits: PeerLimits;
  readonly #runtime: Runtime;
  readonly #log: LogLimiter;
  readonly #counters = newPeerCounters();
  readonly #routes: Routes;
  readonly #listener: PeerListener;
  readonly #tls: PeerTls;
  readonly #forwards: Forwards;
  readonly #forwarding: ForwardOutbox;
  readonly #incoming: IncomingForwards;
  readonly #outbox: Outbox;
  readonly #sending: SnapshotSender;
  readonly #receiving: SnapshotReceiver;
  readonly #snapshotEnds: SnapshotEnds;
  #port = 0;
  readonly #book = new AddressBook();
  #cancelTick: () => void = () => {};
  #stopped = false;

  constructor(options: PeersOptions) {
    const { self, secret, handler, newest, shed, coldProbe, onSessions } = options;
    this.#self = self;
    this.#groups = new LocalGroups(self);
    this.#options = options;
    this.#limits = { ...PEER_LIMITS, ...options.limits };
    checkLimits(this.#limits);
    this.#runtime = options.runtime;
    const [limits, runtime] = [this.#limits, this.#runtime];
    const log = new LogLimiter(options.log, () => runtime.monotonicMs(), limits.logWindowMs);
    this.#log = log;
    const tls = new PeerTls(self.clusterId, self.node, options.tls);
    this.#tls = tls;
    this.#routes = new Routes(
      self,
      (node, shard, address) => this.#openLink(node, shard, address),
      // The counters of a closed link stay.
      (link) => addLink(this.#counters, link),
    );
    this.#forwards = new Forwards(limits, runtime);
    this.#forwarding = new ForwardOutbox((correlation) => this.#forwards.unsent(correlation));
    this.#incoming = new IncomingForwards(handler, (group) => this.#groups.has(group));
    this.#outbox = new Outbox(limits.raftFrameBytes, this.#counters);
    this.#sending = new SnapshotSender(limits, runtime, this.#counters);
    this.#receiving = new SnapshotReceiver(handler, (session, ack) => {
      const link = this.#routes.toShard(session.peer.node, session.peer.shard);
      const frame = encodeSnapshotAck(ack);
      this.#counters.raft_grpc_snapshot_response_bytes += frame.length;
      // The sender treats a lost acknowledgement as a stall.
      if (link?.send(frame) === true) link.flush();
    });
    this.#snapshotEnds = {
      node: self.node,
      boot: self.boot,
      sending: this.#sending,
      receiving: this.#receiving,
      hasGroup: (group) => this.#groups.has(group),
    };
    const listening = {
      onHello: (peer: PeerIdentity) => handler.onHello?.(peer),
      onSession: ({ peer }: Session) => {
        this.#routes.learn(peer.node, peer.shardCount);
        this.#routes.toShard(peer.node, peer.shard)?.nudge(peer.boot);
      },
      onFrame: (session: Session, kind: FrameKind, payload: Uint8Array) => this.#onFrame(session, kind, payload),
      onAddress: (session: Session, bytes: Uint8Array) => {
        if (!this.#book.introduce(session, bytes)) return;
        this.#setRoutes();
        this.#routes.learn(session.peer.node, session.peer.shardCount);
      },
      onSessionEnd: (session: Session) => {
        this.#incoming.onSessionEnd(session);
        this.#receiving.onSessionEnd(session);
        if (this.#book.leave(session)) this.#setRoutes();
      },
    };
    this.#listener = new PeerListener({
      introduce: (node) => this.#introduce(node),
      handler: listening,
      ...{ newest, secret, tls, limits, runtime, log, shed, coldProbe, onSessions },
    });
  }

  /** Listens, then links to the peers. Returns the bound port. */
  async start(): Promise<number> {
    const { listen, peers } = this.#options;
    this.#port = await this.#listener.start({
      host: listen.host,
      port: listen.port === 0 ? 0 : listen.port + this.#self.shard,
    });
    this.setPeers(peers);
    this.#tickLater();
    return this.#port;
  }

  /** The bound port; 0 before start. */
  get port(): number {
    return this.#port;
  }

  async stop(): Promise<void> {
    this.flush();
    this.#stopped = true;
    this.#cancelTick();
    this.#sending.stop();
    this.#routes.setPeers([]);
    this.#forwards.failAll();
    await this.#listener.stop();
  }

  /** Replaces the nodes of the configuration file. */
  setPeers(peers: readonly PeerAddress[]): void {
    this.#book.configure(peers);
    this.#setRoutes();
  }

  /** Certificates count for new connections. Those that the mode does not allow any more are made again. */
  changeTls(settings: PeerTlsSettings | undefined): void {
    this.#tls.change(settings);
    for (const link of this.#routes.links()) link.onTlsChange();
    this.#listener.onTlsChange();
  }

  /** Nodes that joined while the cluster ran. The configuration file takes precedence. */
  setJoined(addresses: ReadonlyMap<number, string>): void {
    this.#book.join(addresses);
    this.#setRoutes();
  }

  #setRoutes(): void {
    if (!this.#stopped && this.#port !== 0) this.#routes.setPeers(this.#book.peers);
  }

  /** Whether messages about `group` can be sent to `node`. */
  connected(node: number, group: number): boolean {
    return this.#routes.toGroup(node, group)?.connected === true;
  }

  version(node: number, group: number): number {
    return this.#routes.toGroup(node, group)?.spokenVersion ?? 0;
  }

  /** Takes a message until the next flush. Without a connection it is dropped and counted: Raft repeats it. */
  sendRaft(node: number, group: number, message: Message): void {
    assert(message.type !== 'snapshot', 'a snapshot goes with its payload, see sendSnapshot');
    const link = this.#routes.toGroup(node, group);
    if (link?.connected === true) this.#outbox.add(link, group, message);
    else this.#counters.peer_dropped_messages++;
  }

  /**
   * Sends a request to the shard that holds `group` on `node` with the next flush; `bytes` must not change before.
   * `onReply` is called exactly once, and not before this returns. When this returns false, it is not called, and
   * nothing was sent.
   */
  forward(node: number, group: number, bytes: Uint8Array, onReply: OnReply): boolean {
    const link = this.#routes.toGroup(node, group);
    if (link === undefined || !link.connected || bytes.length > FRAME_PAYLOAD_BYTES_MAX - 64) return false;
    if (!link.hasRoom(forwardBytes(bytes), this.#forwarding.waitingBytes(link))) return false;
    const correlation = this.#forwards.add(node, link.shard, onReply);
    if (correlation === undefined) return false;
    this.#forwarding.forward(link, { correlation, group, bytes });
    this.#counters.peer_forwards++;
    return true;
  }

  /**
   * Answers a forwarded request with the next flush; `bytes` must not change before. False: the requester cannot be
   * reached, or is another run.
   */
  reply({ node, shard, boot, correlation }: ForwardOrigin, bytes: Uint8Array): boolean {
    const link = this.#routes.toShard(node, shard);
    if (link?.remote?.boot !== boot) {
      this.#counters.peer_replies_dropped++;
      return false;
    }
    this.#forwarding.reply(link, boot, { correlation, bytes });
    return true;
  }

  /** Sends everything since the last flush: one frame of messages per peer, after earlier queued frames. */
  flush(): void {
    this.#forwarding.seal();
    this.#outbox.seal();
    for (const link of this.#routes.links()) link.flush();
  }

  /**
   * Streams a snapshot to the shard that holds `group` on `node`. Undefined: no connection, no space, or a transfer to
   * this node and group is running; the source is not used then. Otherwise its `done` reports the result.
   */
  sendSnapshot(
    node: number,
    group: number,
    message: GroupSnapshotRequest,
    metadata: Uint8Array,
    source: SnapshotSource,
  ): SnapshotSending | undefined {
    const link = this.#routes.toGroup(node, group);
    return link === undefined ? undefined : this.#sending.send(link, group, message, metadata, source);
  }

  /** Reports to the sender how its snapshot ended here. False: it is over already. */
  snapshotResult(snapshot: IncomingSnapshot, status: 'installed' | 'failed'): boolean {
    return this.#receiving.result(snapshot, status);
  }

  paceSnapshot(snapshot: IncomingSnapshot, pace: 'hold' | 'resume'): void {
    this.#receiving.pace(snapshot, pace);
  }

  /** A new copy with the current gauges. */
  counters(): PeerCounters {
    const counters = { ...this.#counters };
    for (const link of this.#routes.links()) addGauges(counters, link);
    const { all, encrypted } = this.#listener.sessions;
    counters.peer_sessions = all;
    counters.peer_tls_sessions = encrypted;
    counters.peer_refused_connections = this.#listener.refused;
    counters.cluster_http_requests = this.#listener.http.requests;
    counters.cluster_http_connections = this.#listener.http.connections;
    counters.peer_forwards_waiting = this.#forwards.waiting;
    counters.peer_forwards_failed = this.#forwards.failed;
    return counters;
  }

  #introduce(node: number): PeerIdentity {
    const { standing } = this.#options;
    return standing === undefined ? this.#self : { ...this.#self, standing: standing(node) };
  }

  #openLink(node: number, shard: number, address: Address): PeerLink {
    const { secret, handler } = this.#options;
    this.#listener.rate.expect(address.host);
    return new PeerLink({
      node,
      shard,
      address,
      introduce: (to) => this.#introduce(to),
      newest: this.#options.newest,
      secret,
      tls: this.#tls,
      limits: this.#limits,
      runtime: this.#runtime,
      log: this.#log,
      advertise: this.#options.peers.find((peer) => peer.node === this.#self.node)?.address,
      handler: {
        onWelcome: (peer) => handler.onWelcome?.(peer),
        onConnected: (link) => {
          const { remote } = link;
          handler.onLinkUp(node, shard);
          // This may close the very link that reported it.
          if (remote !== undefined) this.#routes.learn(node, remote.shardCount);
        },
        onLost: (link) => {
          this.#counters.peer_dropped_messages += this.#outbox.forget(link);
          this.#counters.peer_replies_dropped += this.#forwarding.forget(link);
          this.#sending.onLost(link);
          this.#forwards.lost(node, shard);
          handler.onLinkDown(node, shard);
        },
        onDrain: () => this.#sending.pump(),
      },
    });
  }

  #tickLater(): void {
    if (this.#stopped) return;
    this.#cancelTick = this.#runtime.setTimer(this.#limits.tickMs, () => {
      for (const link of this.#routes.links()) link.tick();
      this.#listener.tick();
      this.#forwards.expire();
      this.#sending.expire();
      this.#tickLater();
    });
  }

  #onFrame(session: Session, kind: FrameKind, payload: Uint8Array): void {
    if (!this.#dispatch(session, kind, payload)) session.fail(`a frame of kind ${kind} that makes no sense here`);
  }

  /** False: the frame is damaged, or refers to groups that are not here. */
  #dispatch(session: Session, kind: FrameKind, payload: Uint8Array): boolean {
    const { node } = session.peer;
    if (kind === FRAME_KIND.raft) return this.#onRaftFrame(node, payload);
    if (kind === FRAME_KIND.forward) return this.#incoming.frame(session, payload);
    if (kind === FRAME_KIND.forwardPiece) return this.#incoming.piece(session, payload);
    if (kind === FRAME_KIND.forwardReply) return this.#onForwardReply(node, payload);
    return onSnapshotFrame(this.#snapshotEnds, session, kind, payload);
  }

  #onRaftFrame(node: number, payload: Uint8Array): boolean {
    this.#counters.raft_grpc_append_stream_response_frames++;
    let owned = true;
    const visit = (group: number, message: Message): void => {
      owned &&= this.#groups.has(group);
      if (owned) this.#options.handler.onRaft(group, message);
    };
    const good = decodeRaftFrame(payload, node, this.#self.node, visit, (group) => this.#groups.memory(group));
    return good && owned;
  }

  #onForwardReply(node: number, payload: Uint8Array): boolean {
    return decodeForwardReplies(payload, (boot, correlation, bytes) => {
      const mine = boot === this.#self.boot && this.#forwards.answer(node, correlation, bytes);
      if (!mine) this.#counters.peer_replies_dropped++;
    });
  }
}
