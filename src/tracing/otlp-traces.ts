/** Which requests are followed, and their spans. Only tracing.ts loads this file, and only where traces are on. */
import { ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, TraceFlags, type Tracer, trace } from '@opentelemetry/api';
import { parseTraceParent } from '@opentelemetry/core';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import type { RequestTrace, RequestTraces, TraceAttributes, TraceSummary } from '../ports.ts';
import { Allowance } from './allowance.ts';
import { SpanQueue, newExporter } from './span-queue.ts';
import type { TraceCounters, TracingOptions } from './tracing.ts';

/**
 * Requests followed in a second, of those that this node draws and of those that clients choose: a client that sends `sampled` with
 * each request takes nothing from the sample. A hundred cost the main thread about half a percent of its time.
 */
const FOLLOWED_PER_SECOND = 100;
/** Questions of one request that get a span; one more would come from a request that asks page after page. */
const SHARD_SPANS_MAX = 8;
/** Paths of streams can be long; what is longer says nothing more to a reader. */
const ATTRIBUTE_CHARS_MAX = 1024;

export class OtlpTraces implements RequestTraces {
  readonly #ratio: number;
  readonly #random: () => number;
  readonly #counters: TraceCounters;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #drawn: Allowance;
  readonly #chosen: Allowance;

  constructor(options: TracingOptions, counters: TraceCounters) {
    const { config, node, runtime } = options;
    this.#ratio = config.sampleRatio;
    this.#random = runtime.random;
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
    const wanted = parent === null ? this.#random() < this.#ratio : (parent.traceFlags & TraceFlags.SAMPLED) !== 0;
    if (!wanted) return undefined;
    if (!(parent === null ? this.#drawn : this.#chosen).take()) {
      this.#counters.leftOut++;
      return undefined;
    }
    this.#counters.followed++;
    const context = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true });
    return new FollowedRequest(this.#tracer, this.#tracer.startSpan('request', { kind: SpanKind.SERVER }, context));
  }

  /** Sends what waits. Rejections were counted and logged with their spans. */
  stop(): Promise<void> {
    return this.#provider.shutdown().catch(() => undefined);
  }
}

class FollowedRequest implements RequestTrace {
  readonly #tracer: Tracer;
  readonly #span: Span;
  #shard: Span | undefined;
  #asked = 0;

  constructor(tracer: Tracer, span: Span) {
    this.#tracer = tracer;
    this.#span = span;
  }

  asked(attributes: TraceAttributes): void {
    if (++this.#asked > SHARD_SPANS_MAX) return;
    this.#shard?.end();
    const context = trace.setSpan(ROOT_CONTEXT, this.#span);
    this.#shard = this.#tracer.startSpan('shard', { attributes: { ...attributes } }, context);
  }

  answered(attributes: TraceAttributes): void {
    this.#shard?.setAttributes({ ...attributes }).end();
    this.#shard = undefined;
  }

  end({ name, attributes, isFailed }: TraceSummary): void {
    this.#shard?.end();
    this.#shard = undefined;
    this.#span.updateName(name).setAttributes({ ...attributes });
    if (isFailed) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    this.#span.end();
  }
}
