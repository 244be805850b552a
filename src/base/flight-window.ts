import { planted } from './planted.ts';

/**
 * Bounds the bytes in flight to what the path carries within a target time, measured by how long each piece takes to be
 * acknowledged. While that is less than the target, the window grows by what arrives, which doubles it per round trip.
 * When it is more, a queue may have built up on the path, and the window becomes the arrival rate times the
 * target. So the queue stays between one and two targets on any path.
 *
 * A late acknowledgement need not mean a queue: the receiver may wait for its processor or disk. A smaller window
 * tells. On a thin path pieces then arrive at the same rate as before, each sooner. When they arrive as late as
 * before, or at a much higher rate, there was no queue: the window is restored, and for a while such waits do not
 * count as late. Small pieces with nothing in flight before them show the same: their wait raises the target, up to
 * three times. Pieces are acknowledged in the order in which they were sent. Time is in any unit the caller chooses.
 */
export interface WindowBounds {
  readonly minBytes: number;
  readonly startBytes: number;
  readonly maxBytes: number;
  /** A longer wait for an acknowledgement means a queue on the path. Above the longest round trip without a queue. */
  readonly target: number;
  /** Pieces up to this size measure latency rather than bandwidth. */
  readonly smallBytes: number;
  /** Whether a trial may find that late pieces had no queue before them. Otherwise late always means a queue. */
  readonly hasTrials: boolean;
}

/** Maximum wait without a queue, in targets, and the allowance on top of it. */
const LATENCY_TARGETS_MAX = 2;
const LATENCY_FACTOR = 1.5;
/** Longest latency that a trial may establish, and how long the result holds, in targets. */
const PROVEN_TARGETS_MAX = 8;
const PROVEN_FOR_TARGETS = 40;
/** Growth is divided by this beyond half of the allowed wait, because its effect shows a round trip later. */
const SLOWER = 3;
/** Acknowledged slots at the front that are tolerated before the array is cut. */
const FRONT_SLOTS_MAX = 256;

/** A trial is valid only with at most this share of the bytes in flight before it. */
const TRIAL_SHARE_MAX = 0.5;
/** Round trips without a result, after which the path counts as thin. */
const TRIAL_ROUNDS = 4;
/** A queue of our own shrinks the wait by the same share. A wait above this power of the share is latency. */
const LATENCY_POWER = 0.25;
/** A rate this many times the one that counted as late: the path is not thin. */
const WIDE_FACTOR = 1.5;
/** Allowance on top of an established latency, because waits vary. */
const PROVEN_FACTOR = 1.5;

interface Piece {
  readonly bytes: number;
  readonly leftAt: number;
  /** Bytes that had arrived when it left. */
  readonly arrivedBefore: number;
  /** It is small, and nothing was in flight when it was sent. */
  readonly showsLatency: boolean;
}

/** After a late piece: do fewer bytes in flight change the wait? */
interface Trial {
  /** The window before the trial. */
  readonly limit: number;
  /** Bytes in flight with the last late piece sent before the trial, and the wait of that piece. */
  flightBytes: number;
  wait: number;
  /** Pieces sent after this many bytes count. */
  from: number;
  /** Round trips without a result. */
  rounds: number;
  /** The path may have changed from then on. */
  readonly until: number;
}

export class FlightWindow {
  readonly #bounds: WindowBounds;
  #pieces: Piece[] = [];
  #front = 0;
  #bytes = 0;
  #limit: number;
  #arrived = 0;
  #target: number;
  /** Latency that a trial has established, and until when it holds. */
  #provenWait = 0;
  #provenUntil = 0;
  #trial: Trial | undefined;

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
    this.#judge(piece, now);
    if (this.#isLate(piece, now)) this.#shrink(piece, now);
    // A window that was never full says nothing about the capacity of the path.
    else if (wasFull) this.#grow(piece.bytes / (this.#isNearlyLate(piece, now) ? SLOWER : 1));
  }

  /** Called periodically, to notice a path on which nothing arrives any more. */
  check(now: number): void {
    const oldest = this.#pieces[this.#front];
    if (oldest !== undefined && this.#isLate(oldest, now)) this.#shrink(oldest, now);
  }

  #isLate({ leftAt }: Piece, now: number): boolean {
    return now - leftAt > this.#patience(now) && !planted('window-never-shrinks');
  }

  #isNearlyLate({ leftAt }: Piece, now: number): boolean {
    return this.#bounds.hasTrials && 2 * (now - leftAt) > this.#patience(now);
  }

  /** Longest wait that does not count as a queue. */
  #patience(now: number): number {
    return now < this.#provenUntil ? Math.max(this.#target, this.#provenWait) : this.#target;
  }

  #grow(bytes: number): void {
    this.#limit = Math.min(this.#bounds.maxBytes, this.#limit + bytes);
  }

  /** Drops everything in flight. */
  clear(): void {
    this.#pieces = [];
    this.#front = 0;
    this.#bytes = 0;
    this.#trial = undefined;
  }

  #noteLatency(wait: number): void {
    const { target } = this.#bounds;
    this.#target = Math.max(target, LATENCY_FACTOR * Math.min(wait, LATENCY_TARGETS_MAX * target));
  }

  #shrink({ leftAt, arrivedBefore }: Piece, now: number): void {
    const wait = now - leftAt;
    const flightBytes = this.#arrived - arrivedBefore;
    const rateLimit = Math.max(this.#bounds.minBytes, (flightBytes * this.#target) / wait);
    if (!this.#bounds.hasTrials) {
      this.#limit = Math.min(this.#limit, rateLimit);
      return;
    }
    this.#trial ??= {
      limit: this.#limit,
      flightBytes,
      wait,
      from: this.#arrived + this.#bytes,
      rounds: 0,
      until: now + PROVEN_FOR_TARGETS * this.#bounds.target,
    };
    // A stall ends with many arrivals at once: the last of them shows the rate, the first does not.
    const most = this.#trial.rounds === 0 ? this.#trial.limit : this.#limit;
    this.#limit = Math.min(most, rateLimit);
  }

  /** Compares a piece that has arrived with those before the trial. */
  #judge({ bytes, leftAt, arrivedBefore }: Piece, now: number): void {
    const trial = this.#trial;
    if (trial === undefined) return;
    const flightBytes = this.#arrived - arrivedBefore;
    const wait = now - leftAt;
    if (this.#arrived - bytes < trial.from) {
      if (trial.rounds === 0 && wait > this.#patience(now)) [trial.flightBytes, trial.wait] = [flightBytes, wait];
      return;
    }
    if (this.#limit >= trial.limit || now > trial.until) {
      this.#trial = undefined;
      return;
    }
    const share = flightBytes / trial.flightBytes;
    if (share > TRIAL_SHARE_MAX || 2 * flightBytes < this.#limit) return;
    const waitShare = wait / trial.wait;
    const isTakenForAQueue = planted('latency-taken-for-a-queue');
    if (waitShare >= share ** LATENCY_POWER && !isTakenForAQueue) this.#noteNoQueue(trial, wait, now);
    else if (waitShare <= share / WIDE_FACTOR && !isTakenForAQueue) {
      this.#limit = Math.max(this.#limit, Math.min(trial.limit, (flightBytes * this.#target) / wait));
      this.#trial = undefined;
    } else {
      trial.rounds += 1;
      trial.from = this.#arrived + this.#bytes;
      if (trial.rounds < TRIAL_ROUNDS) return;
      this.#provenUntil = 0;
      this.#trial = undefined;
    }
  }

  #noteNoQueue({ limit }: Trial, wait: number, now: number): void {
    const { target } = this.#bounds;
    this.#limit = Math.max(this.#limit, limit);
    this.#provenWait = Math.min(PROVEN_FACTOR * wait, PROVEN_TARGETS_MAX * target);
    this.#provenUntil = now + PROVEN_FOR_TARGETS * target;
    this.#trial = undefined;
  }

  #cut(): void {
    if (this.#front < this.#pieces.length && this.#front < FRONT_SLOTS_MAX) return;
    this.#pieces.splice(0, this.#front);
    this.#front = 0;
  }
}
