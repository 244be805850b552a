/** Traces of requests, for the composition. Their packages are loaded only where an endpoint is configured. */
import type { Runtime } from '../base/runtime.ts';
import type { TracingConfig } from '../config/config.ts';
import type { Logger } from '../logging/logger.ts';
import type { RequestTraces } from '../ports.ts';

/** At the end of the process: a receiver that does not answer costs this long, and what is left is lost. */
const STOP_MS = 2000;

export interface TracingOptions {
  readonly config: TracingConfig;
  /** The node's names: these go with every span. */
  readonly node: { readonly id: number; readonly cluster: string; readonly version: string };
  readonly log: Logger;
  readonly runtime: Pick<Runtime, 'nowMs' | 'monotonicMs' | 'random' | 'setTimer'>;
}

export interface TraceCounters {
  /** Requests that were followed, and those that were chosen beyond the bound of a second. */
  followed: number;
  leftOut: number;
  /** Spans that the receiver has taken; those that it has not, or that found the queue full. */
  exported: number;
  lost: number;
}

export interface Tracing {
  /** Undefined: off. */
  readonly traces: RequestTraces | undefined;
  metrics(): Readonly<Record<string, number>>;
  /** Sends what waits, for a bounded time. */
  stop(): Promise<void>;
}

export async function openTracing(options: Omit<TracingOptions, 'config'>, config?: TracingConfig): Promise<Tracing> {
  const counters: TraceCounters = { followed: 0, leftOut: 0, exported: 0, lost: 0 };
  const metrics = (): Readonly<Record<string, number>> => ({
    traced_requests: counters.followed,
    traced_requests_left_out: counters.leftOut,
    trace_spans_exported: counters.exported,
    trace_spans_lost: counters.lost,
  });
  if (config === undefined) return { traces: undefined, metrics, stop: () => Promise.resolve() };
  const { OtlpTraces } = await import('./otlp-traces.ts');
  const traces = new OtlpTraces({ ...options, config }, counters);
  return { traces, metrics, stop: () => Promise.race([traces.stop(), elapsed(options.runtime, STOP_MS)]) };
}

function elapsed(runtime: Pick<Runtime, 'setTimer'>, ms: number): Promise<void> {
  return new Promise((resolve) => void runtime.setTimer(ms, resolve));
}
