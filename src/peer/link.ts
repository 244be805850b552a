/**
 * The outgoing connection to one shard of another node: connects, proves itself, sends frames, and reconnects for as
 * long as it is needed. Frames wait in a bounded queue until they may be sent (egress.ts). Queued frames are dropped
 * and counted when the connection breaks, because they would be stale on the next one.
 */
import { connect, type Socket } from 'node:net';
import { type Address, formatAddress } from '../base/address.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { FRAME_HEAD_BYTES, FRAME_PAYLOAD_BYTES_MAX, FRAME_KIND, sealFrame } from './codec/frame.ts';
import type { Forward } from './codec/forward.ts';
import { FrameReader } from './codec/frame-reader.ts';
import {
  isSpoken,
  NONCE_BYTES,
  type PeerIdentity,
  PROTOCOL_VERSION,
  VERSION_WITH_FORWARD_PIECES,
  VERSION_WITH_PIECES,
  VERSION_WITH_REPAIR,
} from './codec/handshake.ts';
import type { Runtime } from '../base/runtime.ts';
import { Egress } from './egress.ts';
import { ConnectorHandshake, type HandshakeStep, misfit } from './handshake.ts';
import type { PeerLimits } from './limits.ts';
import type { LogLimiter } from './log-limiter.ts';
import type { Priority } from './send-queue.ts';
import type { PeerTls } from './tls.ts';

export interface LinkHandler {
  /** The peer has proved itself. Why the connection ends before it is one: it is tried again. */
  onWelcome(peer: PeerIdentity): string | undefined;
  onConnected(link: PeerLink): void;
  /** After onConnected only. */
  onLost(link: PeerLink, reason: string): void;
  /** Bytes were sent, so less is queued. */
  onDrain(link: PeerLink): void;
}

export interface LinkOptions {
  readonly node: number;
  readonly shard: number;
  readonly address: Address;
  /** This node's identity as reported to the peer, at the time of the call. */
  readonly introduce: (node: number) => PeerIdentity;
  readonly secret: string;
  /** Undefined in tests without it. */
  readonly tls?: PeerTls | undefined;
  readonly limits: PeerLimits;
  readonly runtime: Runtime;
  readonly log: LogLimiter;
  readonly handler: LinkHandler;
  /** Our address, for a peer that does not know it yet; undefined: it does. */
  readonly advertise?: Address | undefined;
  /** Differs from ours only in tests. */
  readonly newest?: number | undefined;
}

/** A pong has no payload; the acceptor says nothing else. */
const CONTROL_BYTES_MAX = 0;
/** Smaller frames are copied together, larger ones are written directly: copies cost less than one more buffer. */
const JOIN_FRAME_BYTES_MAX = 16 * 1024;
const JOINED_BYTES = 64 * 1024;
const NO_BYTES = new Uint8Array(0);
/** Time for a stopped link to write what is pending: a leader's last messages hand over its groups. */
const LINGER_MS = 500;

export class PeerLink {
  readonly node: number;
  readonly shard: number;
  /** Successful connects, and failed attempts and connections. */
  connects = 0;
  failures = 0;
  /** Frames and bytes given to the socket. */
  sentFrames = 0;
  sentBytes = 0;
  readonly #options: LinkOptions;
  readonly #egress: Egress;
  #socket: Socket | undefined;
  /** Buffer for joining frames, and what of it was used since the socket had nothing left to read from it. */
  #joined = NO_BYTES;
  #joinedBytes = 0;
  #remote: PeerIdentity | undefined;
  /** The peer takes a large request in pieces, between which other frames pass. */
  takesRequestPieces = false;
  /** The protocol version of the last connection; 0: there was none. */
  spokenVersion = 0;
  /** The peer knows that a state may be damaged. */
  repairs = false;
  /** Protocol version of the next connection. */
  #version: number;
  #stopped = true;
  #backoffMs: number;
  #cancelTimer: () => void = () => {};
  #isEncrypted = false;
  #silentTicks = 0;
  #ticksUp = 0;
  /** Bytes that the kernel had taken at the last tick. */
  #takenAtTick = 0;

  constructor(options: LinkOptions) {
    this.node = options.node;
    this.shard = options.shard;
    this.#options = options;
    this.#egress = new Egress(options.limits.queueBytesMax);
    this.#backoffMs = options.limits.backoffMinMs;
    this.#version = this.#newest;
  }

  get #newest(): number {
    return this.#options.newest ?? PROTOCOL_VERSION;
  }

  /** The peer's identity; undefined: not connected. */
  get remote(): PeerIdentity | undefined {
    return this.#remote;
  }

  get connected(): boolean {
    return this.#remote !== undefined;
  }

  /** Bytes that wait in this process. */
  get queuedBytes(): number {
    return this.#egress.bytes + (this.#socket?.writableLength ?? 0);
  }

  get droppedFrames(): number {
    return this.#egress.queue.droppedFrames;
  }

  get droppedBytes(): number {
    return this.#egress.queue.droppedBytes;
  }

  start(): void {
    if (!this.#stopped) return;
    this.#stopped = false;
    this.#connect();
  }

  /** Accepts nothing more. Pending socket data is still sent if the peer reads. Calls onLost if it was connected. */
  stop(): void {
    if (this.#stopped) return;
    this.flush();
    this.#stopped = true;
    this.#end('stopped');
  }

  /** Whether an undroppable frame would be accepted behind `waitingBytes`; Raft messages are dropped for it. */
  hasRoom(bytes: number, waitingBytes: number): boolean {
    return this.connected && this.#egress.queue.hasRoom(bytes, waitingBytes);
  }

  /** Queues a frame for the next flush. False: not connected, or no room; the frame is counted as dropped. */
  send(frame: Uint8Array, priority?: Priority): boolean {
    if (!this.connected) return false;
    if (frame.length > FRAME_HEAD_BYTES + FRAME_PAYLOAD_BYTES_MAX && !this.#egress.takesPieces) {
      const { node, shard } = this;
      const text = 'an entry of an old log is too large for a peer of the version before: upgrade that node';
      this.#options.log.warn(`${text} ${node}/${shard}`, text, { node, shard, bytes: frame.length });
      return false;
    }
    return this.#egress.push(frame, priority);
  }

  /** Queues a large request; see takesRequestPieces. False as in send(). */
  sendLarge(request: Forward): boolean {
    return this.connected && this.#egress.queue.pushLarge(request);
  }

  /** Writes queued frames, as many as the socket accepts and the path carries. */
  flush(): void {
    const socket = this.#socket;
    if (socket === undefined || this.#remote === undefined || this.#egress.isEmpty) return;
    const { limits, runtime } = this.#options;
    const { writeAheadBytes } = limits;
    if (socket.writableLength >= writeAheadBytes) return;
    const nowMs = runtime.monotonicMs();
    socket.cork();
    let joined = this.#joined;
    let from = socket.writableLength === 0 ? 0 : this.#joinedBytes;
    let to = from;
    const writeJoined = (): void => {
      if (to > from) socket.write(joined.subarray(from, to));
      from = to;
    };
    while (socket.writableLength + to - from < writeAheadBytes) {
      const frame = this.#egress.next(nowMs);
      if (frame === undefined) break;
      this.sentFrames++;
      this.sentBytes += frame.length;
      if (frame.length > JOIN_FRAME_BYTES_MAX) {
        writeJoined();
        socket.write(frame);
        continue;
      }
      if (to + frame.length > joined.length) {
        writeJoined();
        joined = new Uint8Array(JOINED_BYTES);
        [from, to] = [0, 0];
      }
      joined.set(frame, to);
      to += frame.length;
    }
    writeJoined();
    socket.uncork();
    // The socket still reads from it what the kernel did not accept immediately, with TLS until the end of the write.
    [this.#joined, this.#joinedBytes] = [joined, to];
  }

  /** The peer runs, as `boot`: connect now instead of later, and not to an earlier run. */
  nudge(boot: number): void {
    if (this.#remote !== undefined && this.#remote.boot !== boot) this.#end('the peer was restarted');
    // The called code may have stopped this link.
    if (this.#stopped || this.#socket !== undefined) return;
    this.#cancelTimer();
    this.#connect();
  }

  /** The settings of TLS were changed. A link that they no longer allow is connected again. */
  onTlsChange(): void {
    if (this.#socket === undefined || this.#isEncrypted === this.#dialsTls) return;
    this.#end('cluster.tls was changed');
  }

  get #dialsTls(): boolean {
    return this.#options.tls?.dials === true;
  }

  /** Once per limits.tickMs: pings, and detects a peer that does not answer. */
  tick(): void {
    const remote = this.#remote;
    if (remote === undefined) return;
    // This node may learn its cluster late, from another shard.
    const fault = misfit(this.#options.introduce(this.node), remote);
    if (fault !== undefined) {
      this.#backoffMs = this.#options.limits.backoffMaxMs;
      return this.#end(`${fault.code}: ${fault.text}`);
    }
    if (this.#isMoving()) this.#silentTicks = 0;
    if (++this.#silentTicks > this.#options.limits.silentTicksMax)
      return this.#end(`no answer for ${this.#silentTicks - 1} pings`);
    this.#egress.tick(this.#options.runtime.monotonicMs());
    if (++this.#ticksUp >= 2) this.#backoffMs = this.#options.limits.backoffMinMs;
    this.#ping();
  }

  #ping(): void {
    this.send(pingFrame(this.#options.advertise));
    this.flush();
  }

  /**
   * With a backlog larger than the kernel's buffer, pings are queued too; then any byte that the kernel accepts is a
   * sign of life. Without a backlog it is not: the buffers of a stopped process accept a lot.
   */
  #isMoving(): boolean {
    const socket = this.#socket;
    if (socket === undefined) return false;
    const taken = socket.bytesWritten - socket.writableLength;
    const moved = taken > this.#takenAtTick && socket.writableNeedDrain;
    this.#takenAtTick = taken;
    return moved;
  }

  #connect(): void {
    const { address, introduce, node, shard, secret, runtime, limits } = this.#options;
    const handshake = new ConnectorHandshake(
      { self: introduce(node), toNode: node, toShard: shard, nonce: runtime.randomBytes(NONCE_BYTES) },
      secret,
      this.#version,
      () => introduce(node),
    );
    const reader = new FrameReader(CONTROL_BYTES_MAX);
    const tls = this.#dialsTls ? this.#options.tls : undefined;
    const socket = tls?.connect(address, node) ?? connect({ ...address, noDelay: true });
    this.#socket = socket;
    this.#isEncrypted = tls !== undefined;
    let isOpen = false;
    // Events of an abandoned socket still arrive.
    const mine = (): boolean => this.#socket === socket;
    this.#cancelTimer = runtime.setTimer(limits.handshakeTimeoutMs, () => this.#end('no handshake in time'));
    socket.on(tls === undefined ? 'connect' : 'secureConnect', () => {
      isOpen = true;
      if (mine()) socket.write(handshake.start());
    });
    socket.on('data', (chunk: Buffer) => {
      if (!mine()) return;
      this.#silentTicks = 0;
      const bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      if (this.#remote === undefined) this.#onStep(handshake.receive(bytes), socket, reader);
      else this.#onControl(reader, bytes);
    });
    socket.on('drain', () => {
      if (!mine() || this.#remote === undefined) return;
      this.flush();
      this.#options.handler.onDrain(this);
    });
    socket.on('error', (error: Error) => {
      if (mine()) this.#end(tls === undefined || isOpen ? error.message : tls.explain(error, node, address));
    });
    socket.on('close', () => mine() && this.#end('closed by the other side'));
  }

  #onStep(step: HandshakeStep, socket: Socket, reader: FrameReader): void {
    if (step.kind === 'say') socket.write(step.bytes);
    if (step.kind === 'over') {
      const { newest } = step;
      if (newest !== undefined && newest < this.#version && isSpoken(newest, this.#newest)) return this.#speak(newest);
      // A node that does not match will not match in a moment either.
      this.#backoffMs = this.#options.limits.backoffMaxMs;
      this.#end(`${step.refusal.code}: ${step.refusal.text}`);
    }
    if (step.kind !== 'done') return;
    const notYet = this.#options.handler.onWelcome(step.peer);
    if (notYet !== undefined) return this.#end(notYet);
    this.#cancelTimer();
    this.#remote = step.peer;
    this.spokenVersion = this.#version;
    this.repairs = this.#version >= VERSION_WITH_REPAIR;
    this.#egress.takesPieces = this.#version >= VERSION_WITH_PIECES;
    this.takesRequestPieces = this.#version >= VERSION_WITH_FORWARD_PIECES;
    [this.#silentTicks, this.#ticksUp, this.#takenAtTick] = [0, 0, 0];
    this.connects++;
    const { address, log } = this.#options;
    log.info('peer link is up', { node: this.node, shard: this.shard, address: `${address.host}:${address.port}` });
    this.#options.handler.onConnected(this);
    // Immediately: the peer may need our address for its first answer.
    if (this.#socket === socket && this.#options.advertise !== undefined) this.#ping();
    if (this.#socket === socket && step.rest.length > 0) this.#onControl(reader, step.rest);
  }

  /** The peer has an older version: reconnect immediately with that version. */
  #speak(version: number): void {
    this.#version = version;
    this.#cancelTimer();
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#connect();
  }

  #onControl(reader: FrameReader, bytes: Uint8Array): void {
    let unexpected = false;
    const fault = reader.push(bytes, (kind) => {
      if (kind === FRAME_KIND.pong) this.#egress.onPong(this.#options.runtime.monotonicMs());
      else unexpected = true;
    });
    if (fault !== undefined || unexpected) {
      this.#end(fault ?? 'a frame against the direction of the link');
      return;
    }
    this.flush();
    this.#options.handler.onDrain(this);
  }

  /** The connection, or the attempt, is over. */
  #end(reason: string): void {
    const { limits, runtime, log, handler, address } = this.#options;
    this.#cancelTimer();
    const socket = this.#socket;
    if (this.#stopped && socket !== undefined && socket.writableLength > 0) {
      socket.once(
        'close',
        runtime.setTimer(LINGER_MS, () => socket.destroy()),
      );
      socket.destroySoon();
    } else {
      socket?.destroy();
    }
    [this.#socket, this.#joined] = [undefined, NO_BYTES];
    const wasConnected = this.#remote !== undefined;
    this.#remote = undefined;
    // It may come back as another version.
    this.#version = this.#newest;
    this.#egress.clear();
    if (!this.#stopped) {
      this.failures++;
      const fields = { node: this.node, shard: this.shard, address: `${address.host}:${address.port}`, reason };
      const what = wasConnected ? 'peer link is lost' : 'cannot link to peer';
      log.warn(`${what} ${this.node}/${this.shard}`, what, fields);
      const delayMs = this.#backoffMs * (1 - runtime.random() / 2);
      this.#backoffMs = Math.min(2 * this.#backoffMs, limits.backoffMaxMs);
      this.#cancelTimer = runtime.setTimer(delayMs, () => this.#connect());
    }
    if (wasConnected) handler.onLost(this, reason);
  }
}

/** A PING with our address. */
function pingFrame(address: Address | undefined): Uint8Array {
  const text = address === undefined ? new Uint8Array(0) : encodeUtf8(formatAddress(address));
  const frame = new Uint8Array(FRAME_HEAD_BYTES + text.length);
  frame.set(text, FRAME_HEAD_BYTES);
  return sealFrame(frame, FRAME_KIND.ping);
}
