/** Visits the groups of a shard in turn, at the times that the visits name: the loop of each part of the cold tier. */

/** When the group is visited next (`clockMs`; Infinity: after a wake), or that the visit took what a turn has time for. */
export type NextVisit = number | 'took-turn';

export interface TurnSteps<Work> {
  /** Every turn, before the visits: whatever must not wait for them. */
  readonly settle?: (work: Work) => void;
  readonly visit: (work: Work) => NextVisit;
}

export class TurnLoop<Work> {
  readonly works: readonly Work[];
  readonly #steps: TurnSteps<Work>;
  #nowMs = 0;
  #clockMs = 0;
  #first = 0;
  #dueAtMs = 0;

  constructor(works: readonly Work[], steps: TurnSteps<Work>) {
    this.works = works;
    this.#steps = steps;
  }

  /** Wall clock of the turn. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Monotonic clock of the turn. */
  get clockMs(): number {
    return this.#clockMs;
  }

  /** When the next turn is due although nothing arrives. */
  get dueAtMs(): number {
    return this.#dueAtMs;
  }

  /** Something happened that no visit could foresee: the next turn visits all. */
  wake(): void {
    this.#dueAtMs = 0;
  }

  turn(nowMs: number, clockMs: number): void {
    this.#nowMs = nowMs;
    this.#clockMs = clockMs;
    const { settle, visit } = this.#steps;
    if (settle !== undefined) for (const work of this.works) settle(work);
    if (clockMs < this.#dueAtMs) return;
    this.#dueAtMs = Infinity;
    const rotated = [...this.works.slice(this.#first), ...this.works.slice(0, this.#first)];
    for (const [step, work] of rotated.entries()) {
      const next = visit(work);
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
