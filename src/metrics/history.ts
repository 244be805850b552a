/**
 * The past of a node for the plots of the console: as much of its metrics as they show, since it started. Counters are
 * kept as they are, so a sample that is left out costs resolution, and no total is wrong.
 */
import type { Runtime } from '../base/runtime.ts';
import { BUCKETS_US } from './http-metrics.ts';

type Metrics = Readonly<Record<string, unknown>>;
/** Undefined: the node cannot tell now. */
type ReadMetrics = () => Promise<Metrics | undefined>;

/** Members of the metrics, by their paths. */
const COLUMNS = [
  ...['append', 'batch', 'close', 'read', 'long_poll', 'bootstrap'].map((name) => `latency_us.${name}.count`),
  ...['latency_us.append.buckets', 'latency_us.read.buckets', 'responses_by_status'],
  ...['appended_bytes', 'read_bytes', 'read_cache_hit_bytes', 'sse_rendered_bytes', 'raft_apply_entries'],
  ...['wal_batches', 'wal_sync_ns', 'log_file_bytes', 'live_read_waiters', 'mailbox_depths', 'limit_refusals'],
  ...['cold_hot_bytes', 'cold_flush_backlog_bytes', 'volume_free_bytes', 'process_rss_bytes'],
];

const MINUTE_MS = 60_000;
/** Fine enough to see what happened; a sample asks each shard once. */
const STEP_MS = 10_000;
/** Up to an age, one sample for each step. These take 680 samples, and what is older the rest. */
const TIERS = [
  { ageMs: 40 * MINUTE_MS, stepMs: STEP_MS },
  { ageMs: 240 * MINUTE_MS, stepMs: MINUTE_MS },
  { ageMs: 1440 * MINUTE_MS, stepMs: 5 * MINUTE_MS },
];
const OLDEST_STEP_MS = 30 * MINUTE_MS;
/** Samples of some 600 bytes, and up to 10 more for each core: 0.6 MB in an answer. */
const SAMPLES_MAX = 1024;

interface Kept {
  readonly atMs: number;
  /** A row of the answer, as it is sent. */
  readonly json: string;
}

export class MetricsHistory {
  readonly #runtime: Runtime;
  #kept: readonly Kept[] = [];
  /** Doubled whenever there are too many samples. */
  #oldestStepMs = OLDEST_STEP_MS;
  /** The wall clock ahead of the monotonic one. */
  #aheadMs = 0;
  #end: () => void = () => undefined;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Takes samples until `end`, at the same moments on all nodes. */
  begin(read: ReadMetrics): void {
    const delayMs = STEP_MS - (this.#runtime.nowMs() % STEP_MS);
    let hasEnded = false;
    const cancel = this.#runtime.setTimer(delayMs, () => {
      this.#followClock();
      // A timer may come early by a millisecond.
      const atMs = Math.round(this.#runtime.nowMs() / STEP_MS) * STEP_MS;
      void read().then((metrics) => {
        if (hasEnded) return;
        if (metrics !== undefined) this.add(atMs, metrics);
        this.begin(read);
      });
    });
    this.#end = () => {
      hasEnded = true;
      cancel();
    };
  }

  end(): void {
    this.#end();
  }

  add(atMs: number, metrics: Metrics): void {
    // The clock may have been set back by up to a step.
    const before = this.#kept.filter((sample) => sample.atMs < atMs);
    const row = [atMs, ...COLUMNS.map((path) => valueAt(metrics, path.split('.')))];
    this.#kept = this.#thinned([...before, { atMs, json: JSON.stringify(row) }], atMs);
    while (this.#kept.length > SAMPLES_MAX) {
      this.#oldestStepMs *= 2;
      this.#kept = this.#thinned(this.#kept, atMs);
    }
  }

  /**
   * Starts again when the wall clock was set by more than a step, which says nothing about the ages of earlier samples:
   * one sample far ahead would thin all others, and a clock set back would remove them.
   */
  #followClock(): void {
    const aheadMs = this.#runtime.nowMs() - this.#runtime.monotonicMs();
    if (Math.abs(aheadMs - this.#aheadMs) > STEP_MS) {
      this.#kept = [];
      this.#oldestStepMs = OLDEST_STEP_MS;
    }
    this.#aheadMs = aheadMs;
  }

  #thinned(samples: readonly Kept[], newestMs: number): Kept[] {
    let lastMs = -Infinity;
    return samples.filter(({ atMs }) => {
      const stepMs = TIERS.find(({ ageMs }) => newestMs - atMs < ageMs)?.stepMs ?? this.#oldestStepMs;
      if (Math.floor(atMs / stepMs) === Math.floor(lastMs / stepMs)) return false;
      lastMs = atMs;
      return true;
    });
  }

  /** Oldest first; the first value of a row is its time in milliseconds since 1970. */
  json(): string {
    const head = JSON.stringify({ latency_buckets_us: BUCKETS_US, columns: COLUMNS }).slice(0, -1);
    return `${head},"rows":[${this.#kept.map(({ json }) => json).join(',')}]}`;
  }
}

/** JSON has null where there is nothing. */
function valueAt(metrics: Metrics, path: readonly string[]): unknown {
  let at: unknown = metrics;
  for (const name of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined;
  return at ?? null;
}
