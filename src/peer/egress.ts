/**
 * What leaves for one peer, and when. Bytes that a socket has taken cannot be overtaken any more, and the kernel takes
 * megabytes: so no more is handed to it than the way carries in a moment, found out by pings among the frames, whose
 * pongs say that everything before has arrived. What must not wait goes first, and is not held back.
 */
import { FlightWindow } from '../base/flight-window.ts';
import { FRAME_HEAD_BYTES, FRAME_PING, frameKind, pieceOf, sealFrame } from './codec/frame.ts';
import { type Lane, SendQueue } from './send-queue.ts';

/** Time that what is under way may take, beyond which an urgent frame waits too long; heartbeats come every 200 ms. */
const TARGET_MS = 250;
/** Under way at first, and at least: the largest that keeps the target where a way carries 64 KiB/s. */
const START_BYTES = 256 * 1024;
const MIN_BYTES = 16 * 1024;
/** A gigabit for a tenth of a second. */
const MAX_BYTES = 12 * 1024 * 1024;
/** The pings of a quiet link. */
const SMALL_BYTES = 1024;
/** A larger frame goes in pieces of this size, between which urgent ones leave. */
const PIECE_BYTES = 64 * 1024;

export class Egress {
  readonly #queue: SendQueue;
  #window: FlightWindow;
  /** Handed out since the last ping. */
  #unmarkedBytes = 0;
  #pingIsDue = false;
  /** The peer puts frames together. Set when it is known. */
  takesPieces = false;
  /** A large frame of which some has left, and how much. */
  #cut: Uint8Array | undefined;
  #cutAt = 0;

  constructor(queueBytesMax: number) {
    this.#queue = new SendQueue(queueBytesMax);
    this.#window = newWindow();
  }

  get queue(): SendQueue {
    return this.#queue;
  }

  /** Waits, in bytes. */
  get bytes(): number {
    return this.#queue.bytes + (this.#cut === undefined ? 0 : this.#cut.length - this.#cutAt);
  }

  get isEmpty(): boolean {
    return this.#queue.count === 0 && this.#cut === undefined;
  }

  /** May be under way. */
  get windowBytes(): number {
    return this.#window.limit;
  }

  push(frame: Uint8Array, lane?: Lane): boolean {
    return this.#queue.push(frame, lane);
  }

  /** The next frame for the socket; undefined: nothing waits that may leave now. */
  next(nowMs: number): Uint8Array | undefined {
    if (this.#pingIsDue) {
      this.#pingIsDue = false;
      return this.#mark(sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_PING), nowMs);
    }
    const underWay = this.#window.bytes + this.#unmarkedBytes;
    const frame = this.#take(underWay < this.#window.limit);
    if (frame === undefined) return undefined;
    if (frameKind(frame) === FRAME_PING) return this.#mark(frame, nowMs);
    this.#unmarkedBytes += frame.length;
    this.#pingIsDue = 4 * this.#unmarkedBytes >= this.#window.limit;
    return frame;
  }

  /** A pong: what left before its ping has arrived. */
  onPong(nowMs: number): void {
    this.#window.arrived(nowMs);
  }

  /** Now and then. */
  tick(nowMs: number): void {
    this.#window.check(nowMs);
  }

  /** The connection is over. */
  clear(): void {
    this.#queue.clear();
    this.#window = newWindow();
    this.#unmarkedBytes = 0;
    this.#pingIsDue = false;
    this.#cut = undefined;
  }

  #take(hasRoom: boolean): Uint8Array | undefined {
    if (!hasRoom) return this.#queue.shift('urgent');
    if (this.#cut !== undefined) return this.#queue.shift('small') ?? this.#piece(this.#cut);
    const frame = this.#queue.shift('all');
    if (frame === undefined || !this.takesPieces || frame.length <= PIECE_BYTES + FRAME_HEAD_BYTES) return frame;
    this.#cut = frame;
    this.#cutAt = 0;
    return this.#piece(frame);
  }

  #piece(frame: Uint8Array): Uint8Array {
    const piece = pieceOf(frame, this.#cutAt, PIECE_BYTES);
    this.#cutAt += PIECE_BYTES;
    if (this.#cutAt >= frame.length) this.#cut = undefined;
    return piece;
  }

  #mark(ping: Uint8Array, nowMs: number): Uint8Array {
    this.#window.left(this.#unmarkedBytes + ping.length, nowMs);
    this.#unmarkedBytes = 0;
    return ping;
  }
}

function newWindow(): FlightWindow {
  return new FlightWindow({
    minBytes: MIN_BYTES,
    startBytes: START_BYTES,
    maxBytes: MAX_BYTES,
    target: TARGET_MS,
    smallBytes: SMALL_BYTES,
  });
}
