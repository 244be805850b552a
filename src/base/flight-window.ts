import { planted } from './planted.ts';

/**
 * How much may be under way to somebody: as many bytes as the way there carries within a target time, found out from how
 * long each piece takes to be acknowledged. While that is less than the target, the window grows by what arrives, which
 * doubles it per round trip; when it is more, a queue has built up on the way, and the window becomes the rate at which
 * pieces arrived meanwhile, times the target. So the queue stays between one and two targets whatever the way carries.
 * Who answers late without a queue, like a slow disk, is told by small pieces that had nothing before them: their wait raises
 * the target, up to three times. Pieces are acknowledged in the order in which they left. Time is in whatever unit the caller counts.
 */
export interface WindowBounds {
  readonly minBytes: number;
  readonly startBytes: number;
  readonly maxBytes: number;
  /** Wait for an acknowledgement that is taken for a queue on the way. Above the longest round trip without one. */
  readonly target: number;
  /** Pieces up to this size show a latency rather than the width of the way. */
  readonly smallBytes: number;
}

/** What a wait without a queue may be, in targets; and what is granted on top of it. */
const LATENCY_TARGETS_MAX = 2;
const LATENCY_FACTOR = 1.5;
/** Acknowledged slots at the front that are tolerated before the array is cut. */
const FRONT_SLOTS_MAX = 256;

interface Piece {
  readonly bytes: number;
  readonly leftAt: number;
  /** Bytes that had arrived when it left. */
  readonly arrivedBefore: number;
  /** It is small, and nothing was under way when it left. */
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

  /** Under way. */
  get bytes(): number {
    return this.#bytes;
  }

  /** May be under way. */
  get limit(): number {
    return this.#limit;
  }

  /** At least one piece may always be under way, whatever its size. */
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
    // What was never filled says nothing about what the way carries.
    else if (wasFull) this.#limit = Math.min(this.#bounds.maxBytes, this.#limit + piece.bytes);
  }

  /** Now and then: a way on which nothing arrives any more is noticed too. */
  check(now: number): void {
    const oldest = this.#pieces[this.#front];
    if (oldest !== undefined && this.#isLate(oldest, now)) this.#shrink(oldest, now);
  }

  #isLate({ leftAt }: Piece, now: number): boolean {
    return now - leftAt > this.#target && !planted('window-never-shrinks');
  }

  /** What was under way is given up. */
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
