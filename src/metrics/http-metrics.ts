/**
 * Counters of the HTTP side: one latency histogram for each operation, one counter for each status, gauges of the live
 * readers. A sample costs about 20 ns (an HDR histogram in native code and one array element).
 */
import { float64At } from '../base/bytes.ts';
import { type RecordableHistogram, createHistogram } from 'node:perf_hooks';

/** Names as in src/http/context.ts; repeated, because metrics know the base only and the compiler compares them. */
export const OPERATIONS = [
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

/** Longest latency that is told apart, in microseconds: ten minutes. Three digits of precision cost 200 KiB at most. */
const MICROS_MAX = 600_000_000;
const STATUSES = 600;

export interface LatencySnapshot {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

export interface HttpSnapshot {
  /** By operation, microseconds; operations without a sample are left out. */
  readonly latency_us: Record<string, LatencySnapshot>;
  readonly responses_by_status: Record<string, number>;
  readonly responses_total: number;
}

export class HttpCounters {
  readonly live = {
    longPolls: 0,
    sseReaders: 0,
    sseOpened: 0,
    sseDataEvents: 0,
    sseControlEvents: 0,
    sseErrorEvents: 0,
    slowReaders: 0,
    refused: 0,
  };

  readonly #histograms = new Map<OperationName, RecordableHistogram>(
    OPERATIONS.map((name) => [name, createHistogram({ lowest: 1, highest: MICROS_MAX, figures: 2 })]),
  );
  readonly #statuses = new Float64Array(STATUSES);

  response(operation: OperationName, status: number, micros: number): void {
    const whole = Math.min(Math.max(Math.round(micros), 1), MICROS_MAX);
    this.#histograms.get(operation)?.record(whole);
    if (status > 0 && status < STATUSES) this.#statuses[status] = float64At(this.#statuses, status) + 1;
  }

  snapshot(): HttpSnapshot {
    const latency: Record<string, LatencySnapshot> = {};
    for (const [name, histogram] of this.#histograms) {
      if (histogram.count > 0) latency[name] = describe(histogram);
    }
    const byStatus: Record<string, number> = {};
    let total = 0;
    this.#statuses.forEach((count, status) => {
      if (count === 0) return;
      byStatus[String(status)] = count;
      total += count;
    });
    return { latency_us: latency, responses_by_status: byStatus, responses_total: total };
  }
}

function describe(histogram: RecordableHistogram): LatencySnapshot {
  return {
    count: histogram.count,
    p50: histogram.percentile(50),
    p90: histogram.percentile(90),
    p99: histogram.percentile(99),
    p999: histogram.percentile(99.9),
    max: histogram.max,
  };
}
