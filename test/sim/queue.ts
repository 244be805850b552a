/** Simulated time: a heap of what happens when. Equal times keep the order in which they were asked for. */
interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

const before = (a: Event, b: Event): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

export class EventQueue {
  nowMs = 0;
  /** Events that happened so far: the tick of a failure line. */
  ticks = 0;
  readonly #heap: Event[] = [];
  #orders = 0;

  /** Not before now. */
  at(atMs: number, run: () => void): void {
    const event = { atMs: Math.max(atMs, this.nowMs), order: this.#orders++, run };
    const heap = this.#heap;
    let hole = heap.length;
    heap.push(event);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      const above = heap[parent] as Event;
      if (!before(event, above)) break;
      heap[hole] = above;
      hole = parent;
    }
    heap[hole] = event;
  }

  after(delayMs: number, run: () => void): void {
    this.at(this.nowMs + delayMs, run);
  }

  /** Runs the next event when it comes before `untilMs`; else moves the clock there. False: nothing was left to do. */
  step(untilMs: number): boolean {
    const first = this.#heap[0];
    if (first === undefined || first.atMs >= untilMs) {
      this.nowMs = Math.max(this.nowMs, untilMs);
      return false;
    }
    this.#pop();
    this.nowMs = first.atMs;
    this.ticks++;
    first.run();
    return true;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Event;
    if (heap.length === 0) return;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Event, heap[child] as Event)) child++;
      if (!before(heap[child] as Event, last)) break;
      heap[hole] = heap[child] as Event;
      hole = child;
    }
    heap[hole] = last;
  }
}
