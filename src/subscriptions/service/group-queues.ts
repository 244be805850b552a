/**
 * Concurrent requests per group; the others wait in order. A starting node may want hundreds of thousands of streams,
 * some of groups that answer immediately and some of groups that catch up for minutes.
 */
const AT_ONCE = 64;
/** A queue is copied when this many places at its front are empty. */
const EMPTY_MAX = 1024;

class GroupQueue {
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

export class GroupQueues {
  readonly #queues = new Map<number, GroupQueue>();

  /** Undefined: immediately. Call `leave` afterwards. */
  enter(group: number): Promise<void> | undefined {
    const queue = this.#queues.get(group) ?? new GroupQueue();
    this.#queues.set(group, queue);
    return queue.enter();
  }

  leave(group: number): void {
    this.#queues.get(group)?.leave();
  }
}
