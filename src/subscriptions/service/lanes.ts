/**
 * Concurrent requests per group; the others wait in order. A starting node may want hundreds of thousands of streams,
 * some of groups that answer immediately and some of groups that catch up for minutes.
 */
const AT_ONCE = 64;
/** A queue is copied when this many places at its front are empty. */
const EMPTY_MAX = 1024;

class Lane {
  #free = AT_ONCE;
  #waiting: (() => void)[] = [];
  #next = 0;

  enter(): Promise<void> | undefined {
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  leave(): void {
    const next = this.#waiting[this.#next];
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#next++;
    if (this.#next >= EMPTY_MAX && 2 * this.#next >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#next);
      this.#next = 0;
    }
    next();
  }
}

export class Lanes {
  readonly #lanes = new Map<number, Lane>();

  /** Undefined: immediately. Call `leave` afterwards. */
  enter(group: number): Promise<void> | undefined {
    const lane = this.#lanes.get(group) ?? new Lane();
    this.#lanes.set(group, lane);
    return lane.enter();
  }

  leave(group: number): void {
    this.#lanes.get(group)?.leave();
  }
}
