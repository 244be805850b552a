/** Streams of one group that may have chunks to merge, in order of discovery. Bounded. */
import { Avoided } from './turn-loop.ts';

/** About 200 bytes each. A dropped stream comes back with its next flushes. */
const STREAMS_MAX = 4096;
/** How long a stream with a bad source is avoided. */
const AVOID_MS = 10 * 60_000;
/** Streams that one job examines. */
const STREAMS_PER_JOB = 256;

export class Candidates {
  /** By incarnation, which is unique to a stream. */
  readonly #streams = new Map<number, Uint8Array>();
  readonly #avoided = new Avoided();
  #taken: readonly number[] = [];

  get size(): number {
    return this.#streams.size;
  }

  /** False: there are too many. */
  add(incarnation: number, stream: Uint8Array, clockMs: number): boolean {
    if (this.#avoided.has(incarnation, clockMs) || this.#streams.has(incarnation)) return true;
    if (this.#streams.size >= STREAMS_MAX) return false;
    this.#streams.set(incarnation, stream);
    return true;
  }

  /** The first candidates, all of the first one's bucket. */
  next(): Uint8Array[] {
    const streams: Uint8Array[] = [];
    const taken: number[] = [];
    let bucketBytes = 0;
    for (const [incarnation, stream] of this.#streams) {
      const first = streams[0] ?? stream;
      if (streams.length === 0) bucketBytes = stream.indexOf(0) + 1;
      if (!sameStart(first, stream, bucketBytes)) continue;
      streams.push(stream);
      taken.push(incarnation);
      if (streams.length === STREAMS_PER_JOB) break;
    }
    this.#taken = taken;
    return streams;
  }

  /** Drops the examined ones of those that next() returned. */
  drop(looked: number): void {
    for (const incarnation of this.#taken.slice(0, looked)) this.#streams.delete(incarnation);
    this.#taken = [];
  }

  avoid(incarnation: number, clockMs: number): void {
    this.#streams.delete(incarnation);
    this.#avoided.add(incarnation, clockMs + AVOID_MS);
  }

  clear(): void {
    this.#streams.clear();
  }
}

function sameStart(a: Uint8Array, b: Uint8Array, bytes: number): boolean {
  for (let i = 0; i < bytes; i++) if (a[i] !== b[i]) return false;
  return true;
}
