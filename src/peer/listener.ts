/**
 * The cluster port of one shard: accepts connections, with TLS or without, authenticates peers, and passes on their
 * frames. HTTP connections go to ClusterHttp. A stranger costs one socket, WORD_BYTES_MAX bytes, what OpenSSL holds of a
 * handshake, and limits.handshakeTimeoutMs, and there are at most handshakesMax.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { assert } from '../base/assert.ts';
import { FRAME_KIND, FRAME_HEAD_BYTES, type FrameKind, LARGE_PAYLOAD_BYTES_MAX, sealFrame } from './codec/frame.ts';
import { FrameReader } from './codec/frame-reader.ts';
import { encodeRefusal, type LinkRefusal, NONCE_BYTES, type PeerIdentity } from './codec/handshake.ts';
import { ClusterHttp, looksLikeHttp } from './cluster-http.ts';
import type { Runtime } from '../base/runtime.ts';
import { HandshakeRate } from './handshake-rate.ts';
import { AcceptorHandshake, misfit } from './handshake.ts';
import type { PeerLimits } from './limits.ts';
import type { Address } from '../base/address.ts';
import type { LogLimiter } from './log-limiter.ts';
import { type PeerTls, looksLikeTls } from './tls.ts';

/** An authenticated incoming connection. */
export interface Session {
  readonly peer: PeerIdentity;
  /** For complete frames without a valid meaning; logs one line. */
  fail(fault: string): void;
}

export interface ListenerHandler {
  /** The peer has proved itself; called before it is welcomed. Why it is not yet: the connection ends. */
  onHello(peer: PeerIdentity): string | undefined;
  onSession(session: Session): void;
  /** `payload` is overwritten after the call. Not called after the session was closed. */
  onFrame(session: Session, kind: FrameKind, payload: Uint8Array): void;
  /** The peer's own address; overwritten after the call. */
  onAddress(session: Session, bytes: Uint8Array): void;
  onSessionEnd(session: Session): void;
}

/** Connections of shards of other nodes. */
export interface SessionCount {
  readonly all: number;
  readonly encrypted: number;
}

export interface PeerListenerOptions {
  /** This node's identity as reported to `node`, at the time of the call. */
  readonly introduce: (node: number) => PeerIdentity;
  /** Differs from ours only in tests. */
  readonly newest?: number | undefined;
  readonly secret: string;
  readonly tls: PeerTls;
  readonly limits: PeerLimits;
  readonly runtime: Runtime;
  readonly log: LogLimiter;
  readonly handler: ListenerHandler;
  /** The body of GET /__svc/leadership-shed. */
  readonly shed: () => string;
  /** Whether this node reaches the cold store; undefined: it has none. */
  readonly coldProbe: (() => Promise<boolean>) | undefined;
  /** Told every second of other numbers than before. */
  readonly onSessions?: ((sessions: SessionCount) => void) | undefined;
}

export class PeerListener {
  /** Connections that ended before they became sessions. */
  refused = 0;
  readonly http: ClusterHttp;
  readonly #options: PeerListenerOptions;
  readonly #server: Server;
  readonly rate: HandshakeRate;
  /** Connections in the handshake, oldest first. */
  readonly #strangers = new Set<Incoming>();
  #told: SessionCount = { all: 0, encrypted: 0 };
  /** By node and shard: a second connection replaces the first, which is then half-open. */
  readonly #sessions = new Map<string, Incoming>();

  constructor(options: PeerListenerOptions) {
    this.#options = options;
    this.rate = new HandshakeRate(options.limits.tlsHandshakes, () => options.runtime.monotonicMs());
    this.http = new ClusterHttp(options);
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
  }

  /** The bound port. */
  start(address: Address): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(address.port, address.host, () => {
        this.#server.off('error', reject);
        // Errors of single accepts (no descriptors left) are temporary; the server continues.
        this.#server.on('error', (error) =>
          this.#options.log.warn('listener', 'peer listener', { reason: error.message }),
        );
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const incoming of [...this.#strangers, ...this.#sessions.values()]) incoming.destroy();
    this.http.stop();
    return closed;
  }

  get sessions(): SessionCount {
    const encrypted = [...this.#sessions.values()].filter(({ isEncrypted }) => isEncrypted).length;
    return { all: this.#sessions.size, encrypted };
  }

  /** Once per limits.tickMs. */
  tick(): void {
    for (const incoming of this.#sessions.values()) incoming.tick();
    const { sessions } = this;
    const { all, encrypted } = this.#told;
    if (sessions.all === all && sessions.encrypted === encrypted) return;
    this.#told = sessions;
    this.#options.onSessions?.(sessions);
  }

  /** The settings of TLS were changed. */
  onTlsChange(): void {
    if (!this.#options.tls.isRequired) return;
    for (const incoming of [...this.#strangers, ...this.#sessions.values()])
      if (incoming.isPlain) incoming.fail('cluster.tls was changed to "require"');
    this.http.endPlain();
  }

  #accept(socket: Socket): void {
    const { limits } = this.#options;
    if (this.#strangers.size >= limits.handshakesMax) {
      const [oldest] = this.#strangers;
      oldest?.fail('too many handshakes at a time');
    }
    const incoming: Incoming = new Incoming(socket, this.#options, {
      admit: (peer) => this.#admit(incoming, peer),
      throttles: (address) => this.rate.refusal(address),
      speaksHttp: (carrier, bytes) => {
        this.#strangers.delete(incoming);
        this.http.take(carrier, bytes);
      },
      gone: (wasSession) => this.#gone(incoming, wasSession),
    });
    this.#strangers.add(incoming);
  }

  #admit(incoming: Incoming, peer: PeerIdentity): LinkRefusal | undefined {
    const key = keyOf(peer);
    const before = this.#sessions.get(key);
    if (before === undefined && this.#sessions.size >= this.#options.limits.sessionsMax) {
      return { code: 'too-many-connections', text: `more than ${this.#sessions.size} peer connections` };
    }
    if (before !== undefined) before.fail('replaced by a newer connection of the same shard');
    this.#strangers.delete(incoming);
    this.#sessions.set(key, incoming);
    this.rate.proven(incoming.address);
    return undefined;
  }

  #gone(incoming: Incoming, wasSession: boolean): void {
    this.#strangers.delete(incoming);
    if (!wasSession) {
      this.refused++;
      return;
    }
    const key = keyOf(incoming.peer);
    if (this.#sessions.get(key) === incoming) this.#sessions.delete(key);
    this.#options.handler.onSessionEnd(incoming);
  }
}

const NOTHING = new Uint8Array(0);
/** As many as the pings of one read of the socket ask for; each that is missing narrows the peer's window. */
const UNREAD_PONGS_BYTES_MAX = 64 * 1024;

function keyOf({ node, shard }: PeerIdentity): string {
  return `${node}/${shard}`;
}

interface Owner {
  /** Undefined: admitted. */
  admit(peer: PeerIdentity): LinkRefusal | undefined;
  /** Why no TLS handshake may begin now. */
  throttles(address: string): string | undefined;
  /** `bytes` are the first received; the socket has no listeners any more. */
  speaksHttp(socket: Socket, bytes: Uint8Array): void;
  gone(wasSession: boolean): void;
}

/** One accepted socket: first a stranger, then perhaps a session. */
class Incoming implements Session {
  /** With TLS the one that it carries. */
  #socket: Socket;
  #secured: TLSSocket | undefined;
  readonly #options: PeerListenerOptions;
  readonly #owner: Owner;
  readonly address: string;
  readonly #handshake: AcceptorHandshake;
  readonly #reader = new FrameReader();
  /** Frames that arrive in pieces. */
  readonly #large = new FrameReader(LARGE_PAYLOAD_BYTES_MAX);
  readonly #cancelTimer: () => void;
  #peer: PeerIdentity | undefined;
  /** The first bytes until the protocol is known; then undefined. */
  #opening: Uint8Array | undefined = NOTHING;
  /** From the first bytes of its handshake on. */
  #isTls = false;
  #silentTicks = 0;
  #over = false;

  constructor(socket: Socket, options: PeerListenerOptions, owner: Owner) {
    const { introduce, secret, runtime, limits, newest, tls } = options;
    this.#socket = socket;
    this.#options = options;
    this.#owner = owner;
    this.address = socket.remoteAddress ?? 'unknown';
    this.#handshake = new AcceptorHandshake({
      ...{ introduce, secret, nonce: runtime.randomBytes(NONCE_BYTES), newest },
      faultOf: (node) => tls.faultOf(this.#secured, node),
    });
    this.#cancelTimer = runtime.setTimer(limits.handshakeTimeoutMs, () => this.fail('no handshake in time'));
    this.#follow(socket);
  }

  readonly #onError = (error: Error): void => this.fail(error.message);
  readonly #onClose = (): void => this.fail('closed by the other side');
  readonly #onData = (chunk: Buffer): void => {
    if (this.#over) return;
    this.#silentTicks = 0;
    const bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (this.#peer !== undefined) this.#onBytes(bytes);
    else if (this.#opening === undefined) this.#onWord(bytes);
    else this.#onOpening(Buffer.concat([this.#opening, bytes]));
  };

  get isEncrypted(): boolean {
    return this.#secured !== undefined;
  }

  /** It has said something, and not in TLS. What has said nothing is judged when it does. */
  get isPlain(): boolean {
    return !this.#isTls && this.#opening === undefined;
  }

  get peer(): PeerIdentity {
    assert(this.#peer !== undefined, 'a stranger has no name');
    return this.#peer;
  }

  /** One log line, unless the shard is stopping. */
  fail(reason: string): void {
    if (this.#over) return;
    const { log } = this.#options;
    const { address } = this;
    if (this.#peer === undefined) {
      log.warn(address, 'peer connection refused', { address, reason });
    } else {
      const { node, shard } = this.#peer;
      log.warn(`from ${node}/${shard}`, 'peer connection closed', { address, node, shard, reason });
    }
    this.destroy();
  }

  destroy(): void {
    this.#end();
    this.#socket.destroy();
  }

  tick(): void {
    const { introduce, limits } = this.#options;
    // This node may learn its cluster late, from another shard.
    const fault = misfit(introduce(this.peer.node), this.peer);
    if (fault !== undefined) return this.fail(`${fault.code}: ${fault.text}`);
    if (++this.#silentTicks > limits.silentTicksMax) this.fail('no ping in time');
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelTimer();
    this.#owner.gone(this.#peer !== undefined);
  }

  #follow(socket: Socket): void {
    socket.on('data', this.#onData).on('error', this.#onError).on('close', this.#onClose);
  }

  #onOpening(bytes: Uint8Array): void {
    const isHttp = looksLikeHttp(bytes);
    const isTls = looksLikeTls(bytes);
    if (isHttp === 'unsure' || isTls === 'unsure') {
      this.#opening = bytes;
      return;
    }
    this.#opening = undefined;
    if (isTls) return this.#secure(bytes);
    if (!isHttp) return this.#onWord(bytes);
    const fault = this.#options.tls.strangerFault(this.#secured);
    if (fault !== undefined) return this.fail(fault);
    this.#over = true;
    this.#cancelTimer();
    this.#socket.off('data', this.#onData).off('error', this.#onError).off('close', this.#onClose);
    this.#owner.speaksHttp(this.#socket, bytes);
  }

  /** The rest of the handshake's time is for both: that of TLS and ours. */
  #secure(bytes: Uint8Array): void {
    const { tls } = this.#options;
    if (!tls.accepts || this.#secured !== undefined)
      return this.fail('it speaks TLS: set cluster.tls = "accept" on this node before other nodes dial by TLS');
    const throttled = this.#owner.throttles(this.address);
    if (throttled !== undefined) return this.fail(throttled);
    this.#isTls = true;
    this.#socket.off('data', this.#onData);
    tls.accept(this.#socket, bytes, {
      onSecured: (socket) => {
        this.#opening = NOTHING;
        [this.#socket, this.#secured] = [socket, socket];
        this.#follow(socket);
      },
      onFault: (reason) => this.fail(reason),
    });
  }

  #onWord(bytes: Uint8Array): void {
    const step = this.#handshake.receive(bytes);
    if (step.kind === 'say') this.#socket.write(step.bytes);
    if (step.kind === 'over') this.#refuse(step.refusal, step.say);
    if (step.kind !== 'done') return;
    const refusal = this.#owner.admit(step.peer);
    if (refusal !== undefined) {
      this.#refuse(refusal, encodeRefusal(refusal));
      return;
    }
    this.#cancelTimer();
    this.#peer = step.peer;
    const notYet = this.#options.handler.onHello(step.peer);
    if (notYet !== undefined) return this.fail(notYet);
    this.#socket.write(step.say);
    this.#options.handler.onSession(this);
  }

  #refuse({ code, text }: LinkRefusal, say: Uint8Array): void {
    const reason = `${code}: ${text}`;
    this.#options.log.warn(this.address, 'peer connection refused', { address: this.address, reason });
    this.#end();
    if (say.length === 0) {
      this.#socket.destroy();
      return;
    }
    // The few bytes fit into the kernel's buffer, so this ends immediately even if the client does not read them.
    this.#socket.write(say);
    this.#socket.destroySoon();
  }

  #onBytes(bytes: Uint8Array): void {
    const fault = this.#reader.push(bytes, (kind, payload) => {
      if (this.#over) return;
      if (kind === FRAME_KIND.ping) this.#onPing(payload);
      else if (kind === FRAME_KIND.piece) this.#onPiece(payload);
      else this.#options.handler.onFrame(this, kind, payload);
    });
    if (fault !== undefined) this.fail(fault);
  }

  #onPiece(bytes: Uint8Array): void {
    const fault = this.#large.push(bytes, (kind, payload) => {
      if (this.#over) return;
      if (kind === FRAME_KIND.piece || kind === FRAME_KIND.ping || kind === FRAME_KIND.forwardPiece)
        this.fail('a piece in a piece');
      else this.#options.handler.onFrame(this, kind, payload);
    });
    if (fault !== undefined) this.fail(fault);
  }

  #onPing(payload: Uint8Array): void {
    if (payload.length > 0) this.#options.handler.onAddress(this, payload);

    // A peer that does not read its pongs needs no more of them. With TLS some always wait for the end of a write.
    if (this.#socket.writableLength > UNREAD_PONGS_BYTES_MAX) return;
    this.#socket.write(sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_KIND.pong));
  }
}
