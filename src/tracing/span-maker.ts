/** Spans of one request, on one clock: the wall clock when the request began, and from there on the monotonic one. */
import { type Context, ROOT_CONTEXT, type Span, type SpanOptions, type Tracer, trace } from '@opentelemetry/api';
import type { Runtime } from '../base/runtime.ts';
import type { Part } from './stage-parts.ts';

export class SpanMaker {
  readonly #tracer: Tracer;
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  readonly #zeroMs: number;

  constructor(tracer: Tracer, runtime: Pick<Runtime, 'nowMs' | 'monotonicMs'>) {
    this.#tracer = tracer;
    this.#runtime = runtime;
    this.#zeroMs = runtime.nowMs() - runtime.monotonicMs();
  }

  /** With fractions, which OpenTelemetry keeps. */
  nowMs(): number {
    return this.#zeroMs + this.#runtime.monotonicMs();
  }

  start(name: string, options: SpanOptions, parent: Context): Span {
    return this.#tracer.startSpan(name, options, parent);
  }

  /** A span that is over, with those within it. */
  add(parent: Span, { name, node, startMs, endMs, parts }: Part): void {
    const options = { startTime: startMs, attributes: { 'millrace.node': node } };
    const span = this.start(name, options, trace.setSpan(ROOT_CONTEXT, parent));
    for (const part of parts) this.add(span, part);
    span.end(endMs);
  }
}
