// A receiver of traces on loopback: reads OTLP as JSON, keeps the spans, and can answer as badly as a test wants.
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from './until.ts';

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number;
}

interface Attribute {
  readonly key: string;
  readonly value: Value;
}

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly status: { readonly code: number };
}

interface SentBatch {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

type Facts = Readonly<Record<string, string | number>>;

export interface ReceivedSpan extends Omit<SentSpan, 'attributes'> {
  readonly attributes: Facts;
  readonly resource: Facts;
}

/**
 * `reset`: the connection ends without an answer. `garbage`: bytes that are no HTTP. `hang`: there is never an answer.
 */
export type Behaviour = 'take' | 'refuse' | 'reset' | 'garbage' | 'hang';

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** All bodies, as they came. */
  raw = '';
  readonly authorizations = new Set<string | undefined>();
  behaviour: Behaviour = 'take';
  /** Batches that came. */
  batches = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    await new Promise<void>((resolve) => {
      receiver.#server.listen(0, '127.0.0.1', resolve);
    });
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1/traces`;
  }

  /** The spans of a trace, once there are `count` of them. */
  async trace(traceId: string, count: number): Promise<readonly ReceivedSpan[]> {
    const found = (): ReceivedSpan[] => this.spans.filter((span) => span.traceId === traceId);
    await until(
      () => `${count} spans of ${traceId}, there are ${found().length}`,
      () => found().length >= count,
    );
    return found();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    this.batches++;
    const { behaviour } = this;
    if (behaviour === 'reset') return void request.socket.destroy();
    if (behaviour === 'garbage') return void request.socket.end('garbage\0\n\n');
    if (behaviour === 'hang') return;
    if (behaviour === 'refuse') return void response.writeHead(500).end('no');
    const text = Buffer.concat(chunks).toString('utf8');
    this.raw += text;
    this.authorizations.add(request.headers.authorization);
    for (const { resource, scopeSpans } of (JSON.parse(text) as SentBatch).resourceSpans) {
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({ ...span, attributes: factsOf(span.attributes), resource: factsOf(resource.attributes) });
      }
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  }
}

function factsOf(attributes: readonly Attribute[]): Facts {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)] as const),
  );
}
