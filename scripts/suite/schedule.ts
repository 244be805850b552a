/** Which files run beside each other: as many as keep the cores busy, by what each of them took when it was measured. */
import type { Unit } from './unit.ts';

/** A large machine gets no more servers side by side than its disk can take. Each that waits costs some, too. */
const SIDE_BY_SIDE_MAX = 6;
/** Files wait at different moments, so the sum of their averages may be a little more than there is. */
const BUSY_PART = 1.1;
/** Seconds of processor that units spend before the pace of this machine counts as much as that of the measured one. */
const PACE_SECONDS = 30;
/** Calm units, and those beside them, keep at most this part of the cores busy. */
const CALM_PART = 0.75;

export class Schedule {
  readonly #cores: number;
  readonly #queue: Unit[];
  readonly #running = new Set<Unit>();
  /** Seconds of processor: of units that have ended, when they were measured and now. */
  #measured = PACE_SECONDS;
  #spent = PACE_SECONDS;

  constructor(units: readonly Unit[], cores: number) {
    this.#cores = cores;
    this.#queue = [...units];
  }

  /** The unit that starts now; undefined until another one has ended, and after the last. */
  next(): Unit | undefined {
    if (this.#running.size >= Math.max(this.#cores, SIDE_BY_SIDE_MAX)) return undefined;
    const index = this.#queue.findIndex((unit) => this.#fits(unit));
    const [unit] = index < 0 ? [] : this.#queue.splice(index, 1);
    if (unit !== undefined) this.#running.add(unit);
    return unit;
  }

  /** `more` has to run because of the outcome. */
  ended(unit: Unit, { cpuSeconds, more }: { readonly cpuSeconds: number; readonly more: readonly Unit[] }): void {
    this.#running.delete(unit);
    this.#queue.push(...more);
    // One that was killed tells none.
    if (cpuSeconds === 0) return;
    this.#measured += unit.cpuSeconds;
    this.#spent += cpuSeconds;
  }

  #fits(unit: Unit): boolean {
    if (this.#running.size === 0) return true;
    const all = [...this.#running, unit];
    const part = all.some(({ isCalm }) => isCalm) ? CALM_PART : BUSY_PART;
    return all.reduce((sum, { cores }) => sum + this.#here(cores), 0) <= this.#cores * part;
  }

  /** On a slower machine a unit works longer and waits no longer, so that it keeps more cores busy. */
  #here(cores: number): number {
    const pace = this.#spent / this.#measured;
    const working = Math.min(1, cores);
    return (cores * pace) / (1 - working + working * pace);
  }
}
