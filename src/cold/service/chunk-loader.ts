/**
 * Cache of cold chunks. A chunk never changes and its object's key is never reused, so a verified chunk stays valid.
 * Each chunk is fetched once however many readers wait for it. Fetches are bounded, and read-ahead yields to fetches
 * that a reader waits for.
 */
import { LRUCache } from 'lru-cache';
import type { ChunkRef } from '../../protocol/cold.ts';
import type { ColdFailure, ColdOutcome } from '../ports.ts';

/** Concurrent fetches: enough to keep a store across a network busy. */
const LOADS_MAX = 64;
/** Read-ahead stops here; the rest is for waiting readers. */
const AHEAD_LOADS_MAX = 32;
/** Overhead of an entry; streams that grow slowly have chunks of a few bytes. */
const ENTRY_BYTES = 512;

/** Size of one read-ahead: fewer and larger reads are cheaper on both sides. */
const AHEAD_BYTES_MAX = 8 * 1024 * 1024;

/** Consecutive chunks of one object, verified. Never rejects. */
export type ReadChunks = (refs: readonly ChunkRef[]) => Promise<ColdOutcome<'get'>>;

/** A chunk, or why it could not be loaded. */
export type Loaded = { readonly ok: true; readonly value: Uint8Array } | ColdFailure;

interface Waiting {
  readonly ref: ChunkRef;
  readonly resolve: (outcome: Loaded) => void;
}

export class ChunkLoader {
  readonly counters = {
    cold_cache_hits: 0,
    cold_cache_misses: 0,
    cold_store_reads: 0,
    cold_store_read_bytes: 0,
    cold_store_reads_ahead: 0,
    cold_store_read_errors: 0,
  };
  readonly #read: ReadChunks;
  readonly #cache: LRUCache<string, Uint8Array> | undefined;
  readonly #loads = new Map<string, Promise<Loaded>>();
  /** Requests in order of arrival. One that has begun is forgotten: its promise will hold the chunk. */
  readonly #waiting = new Set<Waiting>();
  #running = 0;

  /** `cacheBytesMax` 0 disables caching. */
  constructor(read: ReadChunks, cacheBytesMax: number) {
    this.#read = read;
    this.#cache =
      cacheBytesMax === 0
        ? undefined
        : new LRUCache({ maxSize: cacheBytesMax, sizeCalculation: (bytes) => bytes.length + ENTRY_BYTES });
  }

  get cachedBytes(): number {
    return this.#cache?.calculatedSize ?? 0;
  }

  /** Queued fetches. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** From memory, if cached. */
  cached(ref: ChunkRef): Uint8Array | undefined {
    const bytes = this.#cache?.get(nameOf(ref));
    if (bytes === undefined) this.counters.cold_cache_misses++;
    else this.counters.cold_cache_hits++;
    return bytes;
  }

  /** From the store. */
  load(ref: ChunkRef): Promise<Loaded> {
    const name = nameOf(ref);
    const running = this.#loads.get(name);
    if (running !== undefined) return running;
    const load = new Promise<Loaded>((resolve) => this.#waiting.add({ ref, resolve }));
    this.#track(name, load);
    this.#startWaiting();
    return load;
  }

  /** Fetches what will probably be requested next, while there is spare capacity. */
  loadAhead(refs: readonly ChunkRef[]): void {
    const cache = this.#cache;
    if (cache === undefined) return;
    const missing = refs.filter((ref) => {
      const name = nameOf(ref);
      // Marks cached chunks as used soon, so that they outlive what this reader has already passed. When the working
      // set exceeds the cache, the oldest chunks are the ones needed next.
      return !this.#loads.has(name) && cache.get(name) === undefined;
    });
    // Not one by one as the reader advances: the window is refilled when half of it is used up.
    const [first] = missing;
    if (first === undefined || 2 * refs.indexOf(first) > refs.length) return;
    for (const run of runsOf(missing)) {
      if (this.waiting > 0 || this.#running >= AHEAD_LOADS_MAX) return;
      this.counters.cold_store_reads_ahead += run.length;
      const reading = this.#start(run);
      run.forEach((ref, i) => this.#track(nameOf(ref), this.#ofRun(reading, ref, i)));
    }
  }

  /** A run fails as a whole; a reader may be waiting for an intact part of it. */
  async #ofRun(reading: Promise<ColdOutcome<'get'>>, ref: ChunkRef, index: number): Promise<Loaded> {
    const outcome = await reading;
    return outcome.ok ? { ok: true, value: outcome.value[index] as Uint8Array } : this.#single(ref);
  }

  async #single(ref: ChunkRef): Promise<Loaded> {
    const outcome = await this.#start([ref]);
    return outcome.ok ? { ok: true, value: outcome.value[0] as Uint8Array } : outcome;
  }

  #track(name: string, load: Promise<Loaded>): void {
    this.#loads.set(name, load);
    void load.then((outcome) => {
      this.#loads.delete(name);
      if (outcome.ok) this.#cache?.set(name, outcome.value);
    });
  }

  #startWaiting(): void {
    for (const one of this.#waiting) {
      if (this.#running >= LOADS_MAX) return;
      this.#waiting.delete(one);
      void this.#single(one.ref).then(one.resolve);
    }
  }

  async #start(refs: readonly ChunkRef[]): Promise<ColdOutcome<'get'>> {
    this.#running++;
    const outcome = await this.#read(refs);
    this.#running--;
    this.counters.cold_store_reads++;
    if (outcome.ok) for (const { length } of outcome.value) this.counters.cold_store_read_bytes += length;
    else this.counters.cold_store_read_errors++;
    this.#startWaiting();
    return outcome;
  }
}

/** Groups neighbours in an object, up to AHEAD_BYTES_MAX. */
function runsOf(refs: readonly ChunkRef[]): ChunkRef[][] {
  const runs: ChunkRef[][] = [];
  for (const ref of refs) {
    const run = runs.at(-1);
    const [first] = run ?? [];
    const last = run?.at(-1);
    const isNext = last?.key === ref.key && last.at + last.length === ref.at;
    if (isNext && first !== undefined && ref.at + ref.length - first.at <= AHEAD_BYTES_MAX) run?.push(ref);
    else runs.push([ref]);
  }
  return runs;
}

function nameOf(ref: ChunkRef): string {
  return `${ref.key}:${ref.at}`;
}
