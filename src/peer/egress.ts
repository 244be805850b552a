/**
 * Decides what is sent to one peer, and when. Bytes in a socket cannot be overtaken, and the kernel accepts megabytes.
 * So the socket gets no more than the path carries in a moment, measured by pings among the frames: a pong says that
 * everything before its ping has arrived. Urgent frames go first and are not held back.
 */
import { FlightWindow } from '../base/flight-window.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, frameKind, sealFrame } from './codec/frame.ts';
import { PIECE_BYTES_MAX, type Priority, SendQueue } from './send-queue.ts';

/** Maximum time for bytes in flight, or an urgent frame waits too long; heartbeats come every 200 ms. */
const TARGET_MS = 250;
/** Initial and minimum bytes in flight: the most that keeps the target when a path carries 64 KiB/s. */
const START_BYTES = 256 * 1024;
const MIN_BYTES = 16 * 1024;
/** A tenth of a second at one gigabit. */
const MAX_BYTES = 12 * 1024 * 1024;
/** Size of a quiet link's pings. */
const SMALL_BYTES = 1024;
/** Pieces are a quarter of the window, within this size and PIECE_BYTES_MAX. */
const PIECE_BYTES_MIN = 4 * 1024;

export class Egress {
  readonly queue: SendQueue;
  #window: FlightWindow;
  /** Sent since the last ping. */
  #unmarkedBytes = 0;
  #pingIsDue = false;
  /** The peer assembles frames from pieces. Set when its version is known. */
  takesPieces = false;

  constructor(queueBytesMax: number) {
    this.queue = new SendQueue(queueBytesMax);
    this.#window = newWindow();
  }

  /** Queued bytes. */
  get bytes(): number {
    return this.queue.bytes;
  }

  get isEmpty(): boolean {
    return this.queue.count === 0;
  }

  /** Bytes that may be in flight. */
  get windowBytes(): number {
    return this.#window.limit;
  }

  push(frame: Uint8Array, priority?: Priority): boolean {
    return this.queue.push(frame, priority);
  }

  /** The next frame for the socket; undefined: no queued frame may be sent now. */
  next(nowMs: number): Uint8Array | undefined {
    if (this.#pingIsDue) {
      this.#pingIsDue = false;
      return this.#mark(sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_KIND.ping), nowMs);
    }
    const underWay = this.#window.bytes + this.#unmarkedBytes;
    const { limit } = this.#window;
    const frame = underWay < limit ? this.queue.shift('all', this.#pieceBytes) : this.queue.shift('urgent');
    if (frame === undefined) return undefined;
    if (frameKind(frame) === FRAME_KIND.ping) return this.#mark(frame, nowMs);
    this.#unmarkedBytes += frame.length;
    this.#pingIsDue = 4 * this.#unmarkedBytes >= this.#window.limit;
    return frame;
  }

  /** A pong: everything sent before its ping has arrived. */
  onPong(nowMs: number): void {
    this.#window.arrived(nowMs);
  }

  /** Called periodically. */
  tick(nowMs: number): void {
    this.#window.check(nowMs);
  }

  /** The connection is closed. */
  clear(): void {
    this.queue.clear();
    this.#window = newWindow();
    this.#unmarkedBytes = 0;
    this.#pingIsDue = false;
  }

  get #pieceBytes(): number {
    if (!this.takesPieces) return Infinity;
    return Math.min(PIECE_BYTES_MAX, Math.max(PIECE_BYTES_MIN, Math.floor(this.#window.limit / 4)));
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
    hasTrials: true,
  });
}
