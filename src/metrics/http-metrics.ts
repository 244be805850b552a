/**
 * Counters of the HTTP side: one latency histogram for each operation, one counter for each status, gauges of the live
 * readers. A sample costs about 30 ns: an HDR histogram in native code for percentiles since the start,
 * buckets for those of any interval, and one array element.
 */
import { float64At } from '../base/bytes.ts';
import { type RecordableHistogram, createHistogram } from 'node:perf_hooks';

/** Names of the latency histograms. */
const OPERATIONS = [
  'create',
  'append',
  'batch',
  'close',
  'read',
  'long_poll',
  'sse_open',
  'head',
  'delete',
  'attrs',
  'snapshot',
  'retention',
  'bootstrap',
  'list',
  'bucket',
  'other',
] as const;

export type OperationName = (typeof OPERATIONS)[number];

/** Longest latency that is told apart, in microseconds: ten minutes. Two digits of precision are enough to read. */
const MICROS_MAX = 600_000_000;
const STATUSES = 600;
/** Upper bounds in microseconds, from an append without a wait to a long-poll. A last bucket has what is above. */
export const BUCKETS_US = [
  ...[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000],
  ...[1_000_000, 2_500_000, 5_000_000, 10_000_000, 60_000_000],
] as const;

export type LatencySnapshot = Readonly<ReturnType<Latency['snapshot']>>;

export interface HttpSnapshot {
  /** Upper bounds, microseconds. */
  readonly latency_buckets_us: readonly number[];
  /** By operation, microseconds; operations without a sample are left out. */
  readonly latency_us: Record<string, LatencySnapshot>;
  readonly responses_by_status: Record<string, number>;
  readonly responses_total: number;
}

/** Counted on the hot path, so each is a few nanoseconds. */
export class HttpCounters {
  readonly live = {
    /** Gauges: readers connected or waiting now, and streams that sessions follow. */
    ...{ longPolls: 0, sseReaders: 0, subscriptions: 0 },
    ...{ sseOpened: 0, sseDataEvents: 0, sseControlEvents: 0, sseErrorEvents: 0 },
    /** Readers moved from the live feed to catch-up reads because their socket was full. */
    slowReaders: 0,
    refused: 0,
  };
  readonly sessions = {
    /** Gauge. */
    open: 0,
    opened: 0,
    /** Not opened: there are too many. */
    refused: 0,
    /** Cut, because the client did not keep to the protocol. */
    faults: 0,
    requests: 0,
    /** Requests and subscriptions. */
    refusals: 0,
    ...{ events: 0, bytesIn: 0, bytesOut: 0 },
  };
  /** Requests that were refused for their token. */
  readonly access = {
    ...{ missing: 0, unknown: 0, expired: 0, revoked: 0, oversized: 0, invalid: 0, misplaced: 0, throttled: 0 },
    /** The token does not allow the operation. */
    denied: 0,
    /** Nothing of the stream or bucket is in scope. */
    hidden: 0,
  };

  readonly #latencies = new Map<OperationName, Latency>(OPERATIONS.map((name) => [name, new Latency()]));
  readonly #statuses = new Float64Array(STATUSES);

  /** One finished response: its status and how long the operation took, in microseconds. */
  response(operation: OperationName, status: number, micros: number): void {
    const whole = Math.min(Math.max(Math.round(micros), 1), MICROS_MAX);
    this.#latencies.get(operation)?.record(whole);
    if (status > 0 && status < STATUSES) this.#statuses[status] = float64At(this.#statuses, status) + 1;
  }

  snapshot(): HttpSnapshot {
    const latency: Record<string, LatencySnapshot> = {};
    for (const [name, samples] of this.#latencies) {
      if (samples.count > 0) latency[name] = samples.snapshot();
    }
    const byStatus: Record<string, number> = {};
    let total = 0;
    this.#statuses.forEach((count, status) => {
      if (count === 0) return;
      byStatus[String(status)] = count;
      total += count;
    });
    return {
      latency_buckets_us: BUCKETS_US,
      latency_us: latency,
      responses_by_status: byStatus,
      responses_total: total,
    };
  }
}

class Latency {
  readonly #histogram: RecordableHistogram = createHistogram({ lowest: 1, highest: MICROS_MAX, figures: 2 });
  readonly #buckets = new Float64Array(BUCKETS_US.length + 1);
  #sum = 0;

  get count(): number {
    return this.#histogram.count;
  }

  record(micros: number): void {
    this.#histogram.record(micros);
    this.#sum += micros;
    let bucket = 0;
    while (bucket < BUCKETS_US.length && micros > (BUCKETS_US[bucket] ?? 0)) bucket++;
    this.#buckets[bucket] = float64At(this.#buckets, bucket) + 1;
  }

  snapshot() {
    const histogram = this.#histogram;
    return {
      count: histogram.count,
      p50: histogram.percentile(50),
      p90: histogram.percentile(90),
      p99: histogram.percentile(99),
      p999: histogram.percentile(99.9),
      max: histogram.max,
      sum: this.#sum,
      /** Samples in each bucket of `latency_buckets_us`, and above all of them. Counters, unlike the percentiles. */
      buckets: [...this.#buckets],
    };
  }
}
