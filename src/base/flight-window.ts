import { planted } from './planted.ts';

/**
 * Bounds the bytes in flight to what the path carries within a target time, measured by how long each piece takes to be
 * acknowledged. While that is less than the target, the window grows by what arrives, which doubles it per round trip.
 * When it is more, a queue has built up on the path, and the window becomes the arrival rate times the target. So the
 * queue stays between one and two targets on any path. Latency without a queue, such as a slow disk, is detected by
 * small pieces with nothing in flight before them: their wait raises the target, up to three times. Pieces are
 * acknowledged in the order in which they were sent. Time is in any unit the caller chooses.
 */
export interface WindowBounds {
  readonly minBytes: number;
  readonly startBytes: number;
  readonly maxBytes: number;
  /** A longer wait for an acknowledgement means a queue on the path. Above the longest round trip without a queue. */
  readonly target: number;
  /** Pieces up to this size measure latency rather than bandwidth. */
  readonly smallBytes: number;
}

/** Maximum wait without a queue, in targets, and the allowance on top of it. */
const LATENCY_TARGETS_MAX = 2;
const LATENCY_FACTOR = 1.5;
/** Acknowledged slots at the front that are tolerated before the array is cut. */
const FRONT_SLOTS_MAX = 256;

interface Piece {
  readonly bytes: number;
  readonly leftAt: number;
  /** Bytes that had arrived when it left. */
  readonly arrivedBefore: number;
  /** It is small, and nothing was in flight when it was sent. */
  readonly showsLatency: boolean;
}

export class FlightWindow {
  readonly #bounds: WindowBounds;
  #pieces: Piece[] = [];
  #front = 0;
  #bytes = 0;
  #limit: number;
  #arrived = 0;
  #target: number;

  constructor(bounds: WindowBounds) {
    this.#bounds = bounds;
    this.#limit = Math.min(bounds.startBytes, bounds.maxBytes);
    this.#target = bounds.target;
  }

  /** Bytes in flight. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes that may be in flight. */
  get limit(): number {
    return this.#limit;
  }

  /** At least one piece may always be in flight, whatever its size. */
  get room(): number {
    return this.#bytes === 0 ? Math.max(1, this.#limit) : this.#limit - this.#bytes;
  }

  get pieces(): number {
    return this.#pieces.length - this.#front;
  }

  left(bytes: number, now: number): void {
    const showsLatency = this.#bytes === 0 && bytes <= this.#bounds.smallBytes;
    this.#pieces.push({ bytes, leftAt: now, arrivedBefore: this.#arrived, showsLatency });
    this.#bytes += bytes;
  }

  /** The oldest piece has arrived. */
  arrived(now: number): void {
    const piece = this.#pieces[this.#front];
    if (piece === undefined) return;
    const wasFull = 2 * this.#bytes >= this.#limit;
    this.#front += 1;
    this.#bytes -= piece.bytes;
    this.#arrived += piece.bytes;
    this.#cut();
    if (piece.showsLatency) this.#noteLatency(now - piece.leftAt);
    if (this.#isLate(piece, now)) this.#shrink(piece, now);
    // A window that was never full says nothing about the capacity of the path.
    else if (wasFull) this.#limit = Math.min(this.#bounds.maxBytes, this.#limit + piece.bytes);
  }

  /** Called periodically, to notice a path on which nothing arrives any more. */
  check(now: number): void {
    const oldest = this.#pieces[this.#front];
    if (oldest !== undefined && this.#isLate(oldest, now)) this.#shrink(oldest, now);
  }

  #isLate({ leftAt }: Piece, now: number): boolean {
    return now - leftAt > this.#target && !planted('window-never-shrinks');
  }

  /** Drops everything in flight. */
  clear(): void {
    this.#pieces = [];
    this.#front = 0;
    this.#bytes = 0;
  }

  #noteLatency(wait: number): void {
    const { target } = this.#bounds;
    this.#target = Math.max(target, LATENCY_FACTOR * Math.min(wait, LATENCY_TARGETS_MAX * target));
  }

  #shrink({ leftAt, arrivedBefore }: Piece, now: number): void {
    const { minBytes } = this.#bounds;
    const carried = ((this.#arrived - arrivedBefore) * this.#target) / (now - leftAt);
    this.#limit = Math.min(this.#limit, Math.max(minBytes, carried));
  }

  #cut(): void {
    if (this.#front < this.#pieces.length && this.#front < FRONT_SLOTS_MAX) return;
    this.#pieces.splice(0, this.#front);
    this.#front = 0;
  }
}
