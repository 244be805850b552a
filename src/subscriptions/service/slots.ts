/**
 * Room for so many deliveries at once. Those that are likely to take long (their receiver failed or was slow the last time) have a
 * part of it, so that any number of dead receivers leaves room for the others. Deliveries that find no room wait in order.
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

  /** False: it waits. To be followed by `leave`. */
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

  /** It does not wait any more. */
  forget(one: T): boolean {
    const waited = this.#queue.delete(one);
    return this.#slowQueue.delete(one) || waited;
  }

  /** Those who wait and would be let in. */
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
