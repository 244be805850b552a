/**
 * Chunks of the cold store in memory. A chunk never changes and its object's key is never used again, so what was verified
 * once stays true. Each chunk is fetched once however many readers wait for it; fetches are bounded, and those that only run
 * ahead of a reader give way to those that somebody waits for.
 */
import { LRUCache } from 'lru-cache';
import type { ColdOutcome } from '../cold/tasks.ts';
import type { ChunkRef } from '../wire/cold.ts';

/** Fetches at once: what keeps a store across a network busy. */
const LOADS_MAX = 64;
/** Read-ahead stops here, so that the rest is for readers that wait. */
const AHEAD_LOADS_MAX = 32;
/** Memory of an entry besides its bytes; streams that grow slowly have chunks of a few bytes. */
const ENTRY_BYTES = 512;

/** A range of an object, verified against its digest. Never rejects. */
export type ReadRange = (
  key: string,
  offset: number,
  length: number,
  digest: Uint8Array,
) => Promise<ColdOutcome<'get'>>;

interface Waiting {
  readonly ref: ChunkRef;
  readonly resolve: (outcome: ColdOutcome<'get'>) => void;
}

export class ChunkLoader {
  readonly counters = { hits: 0, misses: 0, reads: 0, readBytes: 0, aheadReads: 0, readErrors: 0 };
  readonly #read: ReadRange;
  readonly #cache: LRUCache<string, Uint8Array> | undefined;
  readonly #loads = new Map<string, Promise<ColdOutcome<'get'>>>();
  /** In order of arrival; those before #next are done with. */
  #waiting: Waiting[] = [];
  #next = 0;
  #running = 0;

  /** `cacheBytesMax` 0: nothing is kept. */
  constructor(read: ReadRange, cacheBytesMax: number) {
    this.#read = read;
    this.#cache =
      cacheBytesMax === 0
        ? undefined
        : new LRUCache({ maxSize: cacheBytesMax, sizeCalculation: (bytes) => bytes.length + ENTRY_BYTES });
  }

  get cachedBytes(): number {
    return this.#cache?.calculatedSize ?? 0;
  }

  /** Fetches that wait for their turn. */
  get waiting(): number {
    return this.#waiting.length - this.#next;
  }

  /** From memory, if it is there. */
  cached(ref: ChunkRef): Uint8Array | undefined {
    const bytes = this.#cache?.get(nameOf(ref));
    if (bytes === undefined) this.counters.misses++;
    else this.counters.hits++;
    return bytes;
  }

  /** From the store. */
  load(ref: ChunkRef): Promise<ColdOutcome<'get'>> {
    const name = nameOf(ref);
    const running = this.#loads.get(name);
    if (running !== undefined) return running;
    const load = new Promise<ColdOutcome<'get'>>((resolve) => this.#waiting.push({ ref, resolve }));
    this.#track(name, load);
    this.#startWaiting();
    return load;
  }

  /** Fetches what will probably be asked for next, while there is nothing better to do. */
  loadAhead(refs: readonly ChunkRef[]): void {
    if (this.#cache === undefined) return;
    for (const ref of refs) {
      if (this.waiting > 0 || this.#running >= AHEAD_LOADS_MAX) return;
      const name = nameOf(ref);
      if (this.#loads.has(name) || this.#cache.has(name)) continue;
      this.counters.aheadReads++;
      this.#track(name, this.#start(ref));
    }
  }

  #track(name: string, load: Promise<ColdOutcome<'get'>>): void {
    this.#loads.set(name, load);
    void load.then((outcome) => {
      this.#loads.delete(name);
      if (outcome.ok) this.#cache?.set(name, outcome.value);
    });
  }

  #startWaiting(): void {
    while (this.waiting > 0 && this.#running < LOADS_MAX) {
      const { ref, resolve } = this.#waiting[this.#next++] as Waiting;
      if (this.#next === this.#waiting.length) {
        this.#waiting = [];
        this.#next = 0;
      }
      void this.#start(ref).then(resolve);
    }
  }

  async #start(ref: ChunkRef): Promise<ColdOutcome<'get'>> {
    this.#running++;
    const outcome = await this.#read(ref.key, ref.at, ref.length, ref.digest);
    this.#running--;
    this.counters.reads++;
    if (outcome.ok) this.counters.readBytes += outcome.value.length;
    else this.counters.readErrors++;
    this.#startWaiting();
    return outcome;
  }
}

function nameOf(ref: ChunkRef): string {
  return `${ref.key}:${ref.at}`;
}
