/**
 * Reads all rows of the state again and again, slowly: a row that no client asks for may have changed on the disk for
 * months, and by then on other disks as well. What it meets is noticed as by any other read (damaged-groups.ts). Pages
 * of which no row can be read end the shard, with a sentence: another read would end the process without one.
 */
import type { ShardStorage } from './ports.ts';

/** Bytes of a shard, and the pause behind all of them: some percent of what an old disk reads, and of a processor. */
export const SCRUB: ScrubPace = { bytesPerSecond: 1024 * 1024, pauseMs: 3_600_000 };
/** A step delays the turn that it is in: a millisecond or two. */
const STEP_BYTES_MAX = 256 * 1024;

export interface ScrubPace {
  /** 0: rows are not read. */
  readonly bytesPerSecond: number;
  readonly pauseMs: number;
}

export class Scrub {
  readonly #storage: Pick<ShardStorage, 'scrub'>;
  readonly #pace: ScrubPace;
  #atMs = 0;
  /** Bytes that were read since the start, and how often all of them. */
  readonly counters = { scrubbedBytes: 0, scrubs: 0 };

  constructor(storage: Pick<ShardStorage, 'scrub'>, pace = SCRUB) {
    this.#storage = storage;
    this.#pace = pace;
  }

  /** Once a tick. */
  tick(clockMs: number): void {
    if (this.#pace.bytesPerSecond === 0) return;
    if (this.#atMs === 0) this.#atMs = clockMs;
    const bytesMax = Math.min(STEP_BYTES_MAX, ((clockMs - this.#atMs) * this.#pace.bytesPerSecond) / 1000);
    const { bytes, isEnd } = this.#storage.scrub.step(Math.max(0, bytesMax));
    if (bytesMax <= 0) return;
    this.#atMs = clockMs;
    this.counters.scrubbedBytes += bytes;
    if (!isEnd) return;
    this.counters.scrubs++;
    this.#atMs = clockMs + this.#pace.pauseMs;
  }
}
