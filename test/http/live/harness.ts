// A real uWebSockets.js server whose only routes are the live ones, over the fake gateway, and clients that read event
// streams.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { type HttpContext, type HttpSettings, type ReadParams } from '../../../src/http/context.ts';
import { CorsPolicy } from '../../../src/access/cors.ts';
import { startLongPoll } from '../../../src/http/live/long-poll.ts';
import { startSse } from '../../../src/http/live/sse.ts';
import type { RequestContext } from '../../../src/http/request.ts';
import { RequestPool } from '../../../src/http/server.ts';
import { Responder } from '../../../src/http/response.ts';
import { HttpNode, HttpServerContext } from '../../../src/http/server-context.ts';
import { type UwsRequest, type UwsResponse, loadUws } from '../../../src/http/uws.ts';
import { READ_NOW, READ_OFFSET, READ_RECORD } from '../../../src/protocol/read-fields.ts';
import { MemoryGateway } from '../../support/memory-gateway.ts';
import { testContext } from '../test-context.ts';

export interface LiveServer {
  readonly gateway: MemoryGateway;
  readonly ctx: HttpContext;
  readonly node: HttpNode;
  readonly port: number;
  /** Moves the clock of the live readers and serves what is due. */
  advance(ms: number): void;
  url(stream: string, query: string): string;
}

function paramsOf(query: URLSearchParams, ifNoneMatch: string): ReadParams {
  const number = (name: string): number => Number(query.get(name) ?? 0);
  const offset = query.get('offset') ?? '-1';
  const record = query.get('record');
  return {
    mode: record !== null ? READ_RECORD : offset === 'now' ? READ_NOW : READ_OFFSET,
    value: record !== null ? Number(record) : offset === 'now' ? 0 : Math.max(0, Number(offset)),
    maxBytes: number('max_bytes'),
    maxRecords: number('max_records'),
    readFlags: 0,
    live: query.get('live') === 'sse' ? 'sse' : 'long-poll',
    timeoutMs: number('timeout_ms') || 30_000,
    cursor: query.has('cursor') ? number('cursor') : undefined,
    wait: query.get('wait') === 'create' ? 'create' : undefined,
    event: query.get('event') === 'message' ? 'message' : 'data',
    ifNoneMatch,
  };
}

export function newCalls(node: HttpNode): RequestPool {
  const cors = new CorsPolicy(['*'], 'GET, OPTIONS').blocksFor('');
  return new RequestPool(
    new HttpServerContext(node),
    new Responder({ cors, body: 'written', backpressure: node.backpressure, ids: node.ids }),
  );
}

export interface Begun {
  readonly res: UwsResponse;
  /** Handlers of live reads ask nothing of it. */
  readonly req?: UwsRequest;
  readonly stream: string;
}

/** The context of a read of one of bucket b's streams, as it comes to its handler. */
export function beginCall(calls: RequestPool, { res, req, stream }: Begun): RequestContext {
  const call = calls.take();
  call.begin(res, req ?? ({} as UwsRequest), call.server.ctx.monotonicMs());
  call.path.family = 'flat';
  call.path.bucket = 'b';
  call.path.stream = stream;
  return call;
}

/** The clock stands still but for advance(), so nothing in these tests depends on how fast the machine is. */
export async function startLive(t: TestContext, settings: Partial<HttpSettings> = {}): Promise<LiveServer> {
  const uws = loadUws();
  const gateway = new MemoryGateway();
  let clockMs = 1_000_000;
  const ctx = testContext(gateway, { monotonicMs: () => clockMs, settings });
  const node = new HttpNode(ctx);
  const { live } = node;
  const calls = newCalls(node);
  const app = uws.App();
  app.get('/:stream', (res, req) => {
    const params = paramsOf(new URLSearchParams(req.getQuery()), req.getHeader('if-none-match'));
    const call = beginCall(calls, { res, req, stream: req.getParameter(0) ?? '' });
    if (params.live === 'sse') startSse(call, params);
    else startLongPoll(call, params);
    call.returned();
  });
  const port = await new Promise<number>((resolve, reject) => {
    app.listen('127.0.0.1', 0, (token) => {
      if (token === false) reject(new Error('no port'));
      else resolve(uws.us_socket_local_port(token));
    });
  });
  t.after(() => {
    app.close();
    assert.equal(live.memberCount, 0, 'every reader was forgotten');
    assert.equal(live.bufferedBytes, 0, 'every buffered byte was given back');
    assert.equal(ctx.metrics.live.sseReaders, 0);
    assert.equal(ctx.metrics.live.longPolls, 0);
  });
  return {
    gateway,
    ctx,
    node,
    port,
    advance(ms) {
      clockMs += ms;
      live.clock.advance();
    },
    url: (stream, query) => `http://127.0.0.1:${port}/${stream}?${query}`,
  };
}

export interface SseEvent {
  readonly type: string;
  readonly data: string;
}

/** An event-stream client on a bare socket: what it takes from the socket, and when, is in the test's hands. */
export class SseClient {
  readonly socket: Socket;
  readonly events: SseEvent[] = [];
  comments = 0;
  /** Status line and headers as sent. */
  head = '';
  ended = false;
  #raw: Buffer[] = [];
  #text = '';
  #waiters: (() => void)[] = [];

  constructor(port: number, path: string) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    this.socket.on('data', (chunk: Buffer) => {
      this.#raw.push(chunk);
      this.#parse();
      this.#wake();
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.ended = true;
      this.#wake();
    });
  }

  /** Resolves when `done` holds; fails when the connection ends before. */
  async until(done: () => boolean): Promise<void> {
    while (!done()) {
      assert.ok(!this.ended, `the stream ended early: ${this.head} ${JSON.stringify(this.events.slice(-3))}`);
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  untilEvents(count: number): Promise<void> {
    return this.until(() => this.events.length >= count);
  }

  /** The payload that the client has put together from all data events. */
  payload(): string {
    return this.events
      .filter((event) => event.type === 'data')
      .map((event) => event.data)
      .join('');
  }

  control(index = -1): Record<string, unknown> {
    const controls = this.events.filter((event) => event.type === 'control');
    return JSON.parse(controls.at(index)?.data ?? '{}') as Record<string, unknown>;
  }

  async close(): Promise<void> {
    if (this.socket.destroyed) return;
    this.socket.destroy();
    await once(this.socket, 'close');
  }

  #wake(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }

  #parse(): void {
    let raw = Buffer.concat(this.#raw);
    if (this.head === '') {
      const end = raw.indexOf('\r\n\r\n');
      if (end < 0) return;
      this.head = raw.toString('latin1', 0, end);
      raw = raw.subarray(end + 4);
    }
    for (;;) {
      // uWebSockets.js sends the CRLF that ends a chunk together with the next chunk.
      const at = raw[0] === 13 ? 2 : 0;
      const lineEnd = raw.indexOf('\r\n', at);
      if (lineEnd < 0) break;
      const size = Number.parseInt(raw.toString('latin1', at, lineEnd), 16);
      if (size === 0) this.ended = true;
      if (size === 0 || raw.length < lineEnd + 2 + size) break;
      this.#text += raw.toString('latin1', lineEnd + 2, lineEnd + 2 + size);
      raw = raw.subarray(lineEnd + 2 + size);
    }
    this.#raw = [raw];
    this.#parseEvents();
  }

  #parseEvents(): void {
    let start = 0;
    for (;;) {
      const end = this.#text.indexOf('\n\n', start);
      if (end < 0) break;
      this.#event(this.#text.slice(start, end));
      start = end + 2;
    }
    this.#text = this.#text.slice(start);
  }

  #event(block: string): void {
    let type = '';
    const lines: string[] = [];
    for (const line of block.split(/\r\n|\r|\n/)) {
      if (line.startsWith(':')) this.comments++;
      else if (line.startsWith('event:')) type = line.slice(6).trim();
      else if (line.startsWith('data:')) lines.push(line.startsWith('data: ') ? line.slice(6) : line.slice(5));
    }
    if (lines.length > 0) this.events.push({ type, data: Buffer.from(lines.join('\n'), 'latin1').toString() });
  }
}

/** Opens an event stream and waits for its first control event. */
export async function openSse(
  t: TestContext,
  server: LiveServer,
  stream: string,
  query = 'offset=-1',
): Promise<SseClient> {
  const client = new SseClient(server.port, `/${stream}?${query}&live=sse`);
  t.after(() => client.close());
  await client.until(() => client.events.some((event) => event.type === 'control'));
  return client;
}
