/**
 * The parts of the cold tier share the loop that visits the groups of a shard at the times they name,
 * the pauses after failures, and the names of objects that are being written.
 */
import { RowDamage } from '../../base/row-damage.ts';
import type { Group } from '../../group/group.ts';
import type { ObjectId } from '../../protocol/cold.ts';
import type { Random } from '../../raft/random.ts';
import type { Log } from '../../shard/ports.ts';
import type { ColdPort, ColdSettings } from '../ports.ts';
import type { Proposals } from './proposals.ts';

/** Delay after the first failure. */
const FIRST_MS = 200;
/** Maximum delay before a recovered store is used again. */
const LONGEST_MS = 5000;

/** Between visits of a group or stream with a damaged row: each costs what it reads up to that row. */
export const DAMAGED_MS = 60_000;
/** Streams of a group that are avoided at once. */
const AVOIDED_MAX = 1024;

export interface PartOptions {
  readonly groups: readonly Group[];
  readonly port: ColdPort;
  readonly settings: ColdSettings;
  readonly proposals: Proposals;
  readonly seed: number;
  readonly log: Log;
  /** The disk is down to its reserve. */
  readonly short: () => boolean;
  /** Number of the next object of this run. */
  readonly nextSeq: () => number;
}

/** When the group is visited next (`clockMs`; Infinity: after a wake), or that it took what a turn has time for. */
export type NextVisit = number | 'took-turn';

export abstract class TurnLoop<Work> {
  protected readonly works: readonly Work[];
  /** Wall clock of the turn. */
  protected nowMs = 0;
  /** Monotonic clock of the turn. */
  protected clockMs = 0;
  #first = 0;
  #dueAtMs = 0;
  /** Groups whose last visit met a row that the disk changed. */
  readonly #aloneUntilMs = new Map<Work, number>();

  constructor(works: readonly Work[]) {
    this.works = works;
  }

  /** Every turn, before the visits: whatever must not wait for them. */
  protected settle?(work: Work): void;

  protected abstract visit(work: Work): NextVisit;

  /** When the next turn is due although nothing arrives. */
  get dueAtMs(): number {
    return this.#dueAtMs;
  }

  /** Something happened that no visit could foresee: the next turn visits all, also `asked` if it was left alone. */
  protected wake(asked?: Work): void {
    this.#dueAtMs = 0;
    if (asked !== undefined) this.#aloneUntilMs.delete(asked);
  }

  /** A row that the disk changed ends the visit of its group, and no other. */
  #visited(work: Work): NextVisit {
    const aloneUntilMs = this.#aloneUntilMs.get(work) ?? this.clockMs;
    if (this.clockMs < aloneUntilMs) return aloneUntilMs;
    try {
      return this.visit(work);
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error;
      this.#aloneUntilMs.set(work, this.clockMs + DAMAGED_MS);
      return this.clockMs + DAMAGED_MS;
    }
  }

  turn(nowMs: number, clockMs: number): void {
    this.nowMs = nowMs;
    this.clockMs = clockMs;
    if (this.settle !== undefined) for (const work of this.works) this.settle(work);
    if (clockMs < this.#dueAtMs) return;
    this.#dueAtMs = Infinity;
    const rotated = [...this.works.slice(this.#first), ...this.works.slice(0, this.#first)];
    for (const [step, work] of rotated.entries()) {
      const next = this.#visited(work);
      if (next === 'took-turn') {
        // The next turn continues behind it, at once.
        this.#first = (this.#first + step + 1) % this.works.length;
        this.#dueAtMs = clockMs;
        return;
      }
      this.#dueAtMs = Math.min(this.#dueAtMs, next);
    }
  }
}

/** Retry delays after failures: doubling, with jitter so that groups do not retry all at once. */
export class BackOff {
  readonly #random: Random;
  #failures = 0;
  notBeforeMs = -Infinity;

  constructor(random: Random) {
    this.#random = random;
  }

  failed(clockMs: number): void {
    const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(10, this.#failures++));
    this.notBeforeMs = clockMs + wait / 2 + this.#random.below(Math.ceil(wait / 2));
  }

  succeeded(): void {
    this.#failures = 0;
    this.notBeforeMs = -Infinity;
  }

  /** The store answered another request, so there is no reason to wait. */
  hope(): void {
    this.notBeforeMs = -Infinity;
  }
}

/** Streams that are left alone for a while, by incarnation, which is unique to a stream. Bounded. */
export class Avoided {
  readonly #untilMs = new Map<number, number>();

  has(incarnation: number, clockMs: number): boolean {
    const untilMs = this.#untilMs.get(incarnation);
    if (untilMs === undefined || clockMs < untilMs) return untilMs !== undefined;
    this.#untilMs.delete(incarnation);
    return false;
  }

  get any(): boolean {
    return this.#untilMs.size > 0;
  }

  /** Also when it is looked at again: that ends with the next has(). */
  holds(incarnation: number): boolean {
    return this.#untilMs.has(incarnation);
  }

  add(incarnation: number, untilMs: number): void {
    for (const [oldest] of this.#untilMs) {
      if (this.#untilMs.size < AVOIDED_MAX) break;
      this.#untilMs.delete(oldest);
    }
    this.#untilMs.set(incarnation, untilMs);
  }
}

/** Objects of this run that are being written or proposed: no orphans, although nothing refers to them. */
export class OwnObjects {
  readonly #run: string;
  readonly #nextSeq: () => number;
  readonly #seqs = new Set<number>();

  constructor(run: string, nextSeq: () => number) {
    this.#run = run;
    this.#nextSeq = nextSeq;
  }

  /** A name that no object had before. */
  begin(): ObjectId {
    const object = { run: this.#run, seq: this.#nextSeq() };
    this.#seqs.add(object.seq);
    return object;
  }

  end({ seq }: ObjectId): void {
    this.#seqs.delete(seq);
  }

  has({ run, seq }: ObjectId): boolean {
    return run === this.#run && this.#seqs.has(seq);
  }
}
