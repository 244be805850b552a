/**
 * A bounded number of concurrent deliveries. Those that are likely to take long (their receiver failed or was slow last
 * time) get a part of the slots, so that dead receivers always leave slots for the others. Further deliveries wait in
 * order.
 */
export class Slots<T> {
  readonly #most: number;
  readonly #mostSlow: number;
  readonly #queue = new Set<T>();
  readonly #slowQueue = new Set<T>();
  #taken = 0;
  #slowTaken = 0;

  constructor(most: number, mostSlow: number) {
    this.#most = most;
    this.#mostSlow = mostSlow;
  }

  get waiting(): number {
    return this.#queue.size + this.#slowQueue.size;
  }

  /** False: it waits. Call `leave` afterwards. */
  enter(one: T, isSlow: boolean): boolean {
    const queue = isSlow ? this.#slowQueue : this.#queue;
    (isSlow ? this.#queue : this.#slowQueue).delete(one);
    queue.add(one);
    if (!first(queue, this.#free(isSlow)).includes(one)) return false;
    queue.delete(one);
    this.#taken++;
    if (isSlow) this.#slowTaken++;
    return true;
  }

  leave(isSlow: boolean): void {
    this.#taken--;
    if (isSlow) this.#slowTaken--;
  }

  /** Stops waiting. */
  forget(one: T): boolean {
    const waited = this.#queue.delete(one);
    return this.#slowQueue.delete(one) || waited;
  }

  /** Waiting deliveries that may start now. */
  next(): T[] {
    return [...first(this.#queue, this.#free(false)), ...first(this.#slowQueue, this.#free(true))];
  }

  clear(): void {
    this.#queue.clear();
    this.#slowQueue.clear();
  }

  #free(isSlow: boolean): number {
    const free = this.#most - this.#taken;
    return isSlow ? Math.min(free, this.#mostSlow - this.#slowTaken) : free;
  }
}

function first<T>(queue: ReadonlySet<T>, most: number): T[] {
  const found: T[] = [];
  for (const one of queue) {
    if (found.length >= most) break;
    found.push(one);
  }
  return found;
}
