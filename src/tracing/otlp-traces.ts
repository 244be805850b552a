/** Which requests are followed, and their spans. Only tracing.ts loads this file, and only where traces are on. */
import {
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Runtime } from '../base/runtime.ts';
import type { RequestTrace, RequestTraces, TraceAttributes, TraceSummary } from '../ports.ts';
import type { Stage } from '../protocol/stage.ts';
import { SpanQueue, newExporter } from './span-queue.ts';
import { type Part, partsOf } from './stage-parts.ts';
import type { TraceCounters, TracingOptions } from './tracing.ts';

/**
 * Requests followed in a second, of those that this node draws and of those that clients choose: a client
 * that sends `sampled` with each request takes nothing from the sample. One costs 60 to 80 µs of CPU with
 * its four spans, so a hundred are below one percent of a core.
 */
const FOLLOWED_PER_SECOND = 100;
/** Questions of one request that get a span; one more would come from a request that asks page after page. */
const SHARD_SPANS_MAX = 8;
/** Paths of streams can be long; what is longer says nothing more to a reader. */
const ATTRIBUTE_CHARS_MAX = 1024;
const SECOND_MS = 1000;

export class OtlpTraces implements RequestTraces {
  readonly #ratio: number;
  readonly #runtime: TracingOptions['runtime'];
  readonly #counters: TraceCounters;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #drawn: Allowance;
  readonly #chosen: Allowance;

  constructor(options: TracingOptions, counters: TraceCounters) {
    const { config, node, runtime } = options;
    this.#ratio = config.sampleRatio;
    this.#runtime = runtime;
    this.#counters = counters;
    const clockMs = (): number => runtime.monotonicMs();
    this.#drawn = new Allowance(FOLLOWED_PER_SECOND, clockMs);
    this.#chosen = new Allowance(FOLLOWED_PER_SECOND, clockMs);
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        'service.name': 'millrace',
        'service.namespace': node.cluster,
        'service.version': node.version,
        'service.instance.id': String(node.id),
      }),
      // Whether a request is followed is decided before it has a span.
      sampler: new AlwaysOnSampler(),
      spanLimits: { attributeValueLengthLimit: ATTRIBUTE_CHARS_MAX },
      spanProcessors: [new SpanQueue(newExporter(options, counters), counters)],
    });
    this.#tracer = this.#provider.getTracer('millrace', node.version);
  }

  begin(traceparent: string): RequestTrace | undefined {
    const parent = traceparent === '' ? null : parseTraceParent(traceparent);
    const wanted =
      parent === null ? this.#runtime.random() < this.#ratio : (parent.traceFlags & TraceFlags.SAMPLED) !== 0;
    if (!wanted) return undefined;
    if (!(parent === null ? this.#drawn : this.#chosen).take()) {
      this.#counters.leftOut++;
      return undefined;
    }
    this.#counters.followed++;
    const context = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true });
    return new FollowedRequest(new SpanMaker(this.#tracer, this.#runtime), context);
  }

  /** Sends what waits. Rejections were counted and logged with their spans. */
  stop(): Promise<void> {
    return this.#provider.shutdown().catch(() => undefined);
  }
}

/** A request that is followed, and the shard that it asked last. */
class FollowedRequest implements RequestTrace {
  readonly #spans: SpanMaker;
  readonly #span: Span;
  #shard: { readonly span: Span; readonly startMs: number } | undefined;
  #asked = 0;

  constructor(spans: SpanMaker, parent: Context) {
    this.#spans = spans;
    this.#span = spans.start('request', { kind: SpanKind.SERVER, startTime: spans.nowMs() }, parent);
  }

  asked(attributes: TraceAttributes): void {
    if (++this.#asked > SHARD_SPANS_MAX) return;
    this.#endShard();
    const startMs = this.#spans.nowMs();
    const span = this.#spans.start(
      'shard',
      { startTime: startMs, attributes: { ...attributes } },
      trace.setSpan(ROOT_CONTEXT, this.#span),
    );
    this.#shard = { span, startMs };
  }

  answered(attributes: TraceAttributes, stages: readonly Stage[]): void {
    const shard = this.#shard;
    if (shard === undefined) return;
    const endMs = this.#spans.nowMs();
    for (const part of partsOf(stages, shard.startMs, endMs)) this.#spans.add(shard.span, part);
    shard.span.setAttributes({ ...attributes });
    this.#endShard();
  }

  end({ name, attributes, isFailed }: TraceSummary): void {
    this.#endShard();
    this.#span.updateName(name).setAttributes({ ...attributes });
    if (isFailed) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    this.#span.end(this.#spans.nowMs());
  }

  #endShard(): void {
    this.#shard?.span.end(this.#spans.nowMs());
    this.#shard = undefined;
  }
}

/** Spans of one request, on one clock: the wall clock when the request began, and from there on the monotonic one. */
class SpanMaker {
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

/** How many of something a second may have, saved up for one second at most. */
export class Allowance {
  readonly #perSecond: number;
  readonly #clockMs: () => number;
  #left: number;
  #atMs: number;

  constructor(perSecond: number, clockMs: () => number) {
    this.#perSecond = perSecond;
    this.#clockMs = clockMs;
    this.#left = perSecond;
    this.#atMs = clockMs();
  }

  /** False: there is none left now. */
  take(): boolean {
    const clockMs = this.#clockMs();
    const earned = ((clockMs - this.#atMs) * this.#perSecond) / SECOND_MS;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
    this.#atMs = clockMs;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
