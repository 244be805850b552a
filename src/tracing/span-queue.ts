/**
 * Spans that wait for the receiver, and how they get there. The queue counts what the receiver has not answered for
 * yet, so it is full whether spans arrive too fast or the receiver hangs, and what does not fit is counted.
 */
import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace';
import type { TraceCounters, TracingOptions } from './tracing.ts';

/** About 2 KiB each. */
const WAITING_SPANS_MAX = 2048;
/** A batch is written as JSON in one go on the main thread, in about a millisecond. */
const BATCH_SPANS = 128;
/** A batch that is not full leaves after this long. */
const BATCH_WAIT_MS = 1000;
/** One batch may take this long with all its repeats. */
const EXPORT_MS = 5000;
const LOG_WINDOW_MS = 60_000;
/** A receiver's reason is shown up to here. */
const REASON_CHARS_MAX = 200;

/** Tells the queue, the counters and the log what became of the spans. */
class CountedExporter implements SpanExporter {
  readonly #inner: SpanExporter;
  readonly #options: TracingOptions;
  readonly #counters: TraceCounters;
  #loggedMs = -Infinity;
  #lostBefore = 0;
  /** Spans that wait or travel. */
  waiting = 0;

  constructor(inner: SpanExporter, options: TracingOptions, counters: TraceCounters) {
    this.#inner = inner;
    this.#options = options;
    this.#counters = counters;
  }

  export(spans: ReadableSpan[], told: (result: ExportResult) => void): void {
    this.#inner.export(spans, (result) => {
      this.waiting -= spans.length;
      if (result.code === ExportResultCode.SUCCESS) this.#counters.exported += spans.length;
      else {
        this.#counters.lost += spans.length;
        this.#logLoss(result.error);
      }
      told(result);
    });
  }

  shutdown(): Promise<void> {
    return this.#inner.shutdown();
  }

  #logLoss(error: Error | undefined): void {
    const { config, log, runtime } = this.#options;
    const clockMs = runtime.monotonicMs();
    if (clockMs - this.#loggedMs < LOG_WINDOW_MS) return;
    this.#loggedMs = clockMs;
    const spans = this.#counters.lost - this.#lostBefore;
    this.#lostBefore = this.#counters.lost;
    const reason = (error?.message ?? '').slice(0, REASON_CHARS_MAX);
    log.warn({ endpoint: config.endpoint, reason, spans }, 'spans are lost: the receiver of traces does not take them');
  }
}

export function newExporter(options: TracingOptions, counters: TraceCounters): CountedExporter {
  const { endpoint, token } = options.config;
  const exporter = new OTLPTraceExporter({
    url: endpoint,
    timeoutMillis: EXPORT_MS,
    ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
  });
  return new CountedExporter(exporter, options, counters);
}

export class SpanQueue extends BatchSpanProcessor {
  readonly #exporter: CountedExporter;
  readonly #counters: TraceCounters;

  constructor(exporter: CountedExporter, counters: TraceCounters) {
    super({
      exporter,
      maxQueueSize: WAITING_SPANS_MAX,
      maxExportBatchSize: BATCH_SPANS,
      scheduledDelayMillis: BATCH_WAIT_MS,
      exportTimeoutMillis: EXPORT_MS,
    });
    this.#exporter = exporter;
    this.#counters = counters;
  }

  override onEnd(span: ReadableSpan): void {
    if (this.#exporter.waiting >= WAITING_SPANS_MAX) {
      this.#counters.lost++;
      return;
    }
    this.#exporter.waiting++;
    super.onEnd(span);
  }
}
