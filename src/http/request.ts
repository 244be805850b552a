/**
 * One request, from its route handler to the end of its answer: the only owner of `res`. It counts the request as open, hears when the
 * client leaves, holds the bytes of the body, writes refusals and counts the answer. There are four ways to answer:
 *
 * - send(): a shard is asked, and a ReplyRenderer writes the whole answer. A reply needs no lookup and no promise.
 * - aggregate(): several replies, or a promise, become one answer.
 * - streaming(): pieces at the pace of the reader.
 * - follow(): a live reader answers when something is appended.
 *
 * Contexts are pooled, with their callbacks bound once: uWebSockets.js takes functions (abort, data, cork), and closures made for each
 * request would cost three allocations.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import type { StreamName } from '../protocol/flat-path.ts';
import { type Asking, type Request, fillRequest } from '../protocol/request.ts';
import { type BodyBudget, type BodyOwner, BodyReader } from './body.ts';
import { type Family, NO_ROUTE, type Operation, type RouteTraits } from './context.ts';
import { type GuardedAbort, type LiveAnswer, type ResponseOwner, guardAbort, whenGone } from './guard.ts';
import type { WriteHeaders } from './headers.ts';
import type { Responder } from './response.ts';
import type { HttpServerContext } from './server-context.ts';
import { type ResponseHolder, type StreamOptions, StreamingResponse } from './streaming.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

/** Turns replies of a shard into the answer. A route without state of its own has one for all requests. */
export interface ReplyRenderer {
  /** Writes the whole answer and returns its status. Runs corked; `reply` is valid only inside, and no refusal. */
  render(call: RequestContext, res: UwsResponse, reply: Reply): number;
  /** A refusal that is shown differently here; undefined: this one is not. */
  renderRefusal?(call: RequestContext, res: UwsResponse, reply: Reply): number | undefined;
  /** Before that, and also when the client is gone. True: the answer waits for another question, or for deliver(). */
  intercept?(call: RequestContext, reply: Reply): boolean;
}

/** Takes the body of a request. */
export interface BodyConsumer {
  /** The body is complete. `body` may lie in memory that is gone after the call. */
  consume(call: RequestContext, body: Uint8Array): void;
  /** In place of the plain refusal. */
  tooLarge?(call: RequestContext): void;
}

/** An answer made of several replies, or of what a promise brings. The first call ends it; all are harmless after the end. */
export type AggregateResponse = Pick<
  RequestContext,
  'isOver' | 'json' | 'text' | 'empty' | 'unavailable' | 'refuse' | 'guard'
>;

export interface ContextPool {
  give(call: RequestContext): void;
}

/** The reply while its answer is written; valid only there. A module variable, so the cork callback needs no closure. */
let answering: Reply | undefined;

export class RequestContext implements ReplyHandler, ResponseOwner, BodyOwner, ResponseHolder {
  readonly server: HttpServerContext;
  readonly gateway: ShardGateway;
  route: RouteTraits = NO_ROUTE;
  /** What the answer is counted as: the route's, unless the handler finds that it is another. */
  operation: Operation = 'other';
  family: Family = 'bucketed';
  /** In lower case. */
  method = '';
  url = '';
  bucket = '';
  stream = '';
  /** Of the stream; -1: not looked up. */
  knownGroup = -1;
  /** Of a snapshot or of the retention floor, as it was sent; empty when there is none. */
  offset = '';
  /** Variables of an operator's path, as they were sent. */
  parameters: readonly string[] = [];
  responder: Responder;
  startedMs = 0;
  /** Undefined once the answer has ended, so nothing can touch a dead response. */
  res: UwsResponse | undefined = undefined;
  /** It outlives its route handler, and is open until its answer has ended. */
  isAccepted = false;
  /** The client has left before the answer; for answers of several parts. */
  onAbort: (() => void) | undefined = undefined;
  #req: UwsRequest | undefined = undefined;
  /** Of this request or, while the context is spare, of the last one: what fails after the end is logged with its id. */
  #answered: UwsResponse | undefined = undefined;
  /** Handed to a shard: onReply will come. */
  #sent = false;
  /** Others may hold it longer than the answer lasts, so it serves no other request. */
  #isShared = false;
  #renderer: ReplyRenderer | undefined = undefined;
  #consumer: BodyConsumer | undefined = undefined;
  #streaming: StreamingResponse | undefined = undefined;
  #live: LiveAnswer | undefined = undefined;
  /** Made for the first body. */
  #body: BodyReader | undefined = undefined;
  #request: Request | undefined = undefined;

  readonly #pool: ContextPool;
  readonly #abort: GuardedAbort;
  readonly #write = (): void => this.#writeReply();

  constructor(server: HttpServerContext, responder: Responder, pool: ContextPool) {
    this.server = server;
    this.gateway = server.gateway;
    this.responder = responder;
    this.#pool = pool;
    this.#abort = guardAbort(server.logError, this, () => this.#aborted());
  }

  /** A route handler begins. */
  begin(res: UwsResponse, req: UwsRequest, startedMs: number): void {
    this.res = res;
    this.#answered = res;
    this.#req = req;
    this.startedMs = startedMs;
    this.family = 'bucketed';
    this.route = NO_ROUTE;
    this.operation = 'other';
    this.isAccepted = false;
    this.#sent = false;
  }

  /** Only inside the route handler. */
  get req(): UwsRequest {
    if (this.#req === undefined) throw new Error('the request is valid only inside its route handler');
    return this.#req;
  }

  /** Only inside the route handler. */
  get headers(): WriteHeaders {
    return this.server.headers;
  }

  /** Of refusals and log lines; it is made when it is asked for. */
  get requestId(): string {
    return this.#answered === undefined ? '' : this.server.ids.of(this.#answered);
  }

  /** The route handler has returned. */
  returned(): void {
    this.#req = undefined;
    if (this.isAccepted) return;
    this.res = undefined;
    this.#pool.give(this);
  }

  get isOver(): boolean {
    return this.res === undefined;
  }

  /** For a command that is filled before its body comes. Each call sets all of its fields. */
  get request(): Request {
    return (this.#request ??= this.server.requests.take());
  }

  /** It was sent, and is not looked at again. */
  releaseRequest(): void {
    if (this.#request === undefined) return;
    this.server.requests.give(this.#request);
    this.#request = undefined;
  }

  /** That of the stream which the path names. */
  get group(): number {
    return this.knownGroup >= 0 ? this.knownGroup : this.gateway.groupOf(this.bucket, this.stream);
  }

  /** Sends a query about the stream that the path names. */
  ask(operation: Asking<StreamName>, renderer: ReplyRenderer): void {
    const { query } = this.server;
    fillRequest(query, operation, this.group, this);
    this.send(query, renderer);
  }

  /** Keeps the response after the route handler has returned. */
  accept(): void {
    const { res } = this;
    if (res === undefined || this.isAccepted) return;
    this.isAccepted = true;
    this.server.open++;
    whenGone(res, this.#abort);
  }

  /**
   * Accepts the request and reads its body, up to the bound of its route; call it last in the route handler. `declared`:
   * Content-Length, -1 when unknown. `budget`: where the bytes are counted.
   */
  readBody(declared: number, consumer: BodyConsumer, budget: BodyBudget = this.server.budget): void {
    this.accept();
    const { res, route } = this;
    if (res === undefined) return;
    this.#consumer = consumer;
    this.#body ??= new BodyReader(this.server, this);
    this.#body.read(res, declared, route.bodyBytesMax ?? 0, budget);
  }

  bodyReady(body: Uint8Array): void {
    this.#consumer?.consume(this, body);
  }

  bodyTooLarge(): void {
    if (this.#consumer?.tooLarge === undefined) this.refuse('BODY_TOO_LARGE');
    else this.#consumer.tooLarge(this);
  }

  /** Accepts the request and asks a shard, or answers 503 at once. */
  send(request: Request, renderer: ReplyRenderer, shard?: number): void {
    this.accept();
    this.#renderer = renderer;
    this.#sent = this.gateway.send(request, this, shard);
    if (!this.#sent) this.refuse('SHARD_BUSY');
  }

  /** As send(), by way of a service that asks in its place; false: `busy` is the answer. */
  sendThrough(send: (handler: ReplyHandler) => boolean, renderer: ReplyRenderer, busy: ErrorCode): void {
    this.#renderer = renderer;
    this.#sent = send(this);
    if (!this.#sent) this.refuse(busy);
  }

  onReply(reply: Reply): void {
    if (this.#renderer?.intercept?.(this, reply) === true) return;
    this.deliver(reply);
  }

  /** Writes the answer to `reply`, if the client is still there. */
  deliver(reply: Reply): void {
    this.#sent = false;
    if (this.res === undefined) return this.#over();
    answering = reply;
    this.res.cork(this.#write);
    answering = undefined;
  }

  aggregate(): AggregateResponse {
    this.#isShared = true;
    this.accept();
    return this;
  }

  json(status: number, value: unknown): void {
    this.respond((res) => this.responder.json(res, status, JSON.stringify(value)));
  }

  unavailable(value: unknown): void {
    this.respond((res) => this.responder.unavailable(res, JSON.stringify(value)));
  }

  text(status: number, sentence: string): void {
    this.respond((res) => this.responder.text(res, status, sentence));
  }

  empty(status: 200 | 201 | 204): void {
    this.respond((res) => this.responder.empty(res, status));
  }

  /** A whole answer of any form: `render` writes it and returns its status. Harmless after the end. */
  respond(render: (res: UwsResponse) => number): void {
    const { res } = this;
    if (res === undefined) return;
    res.cork(() => this.done(render(res)));
  }

  /** Runs what follows a reply: a bug in it is logged, and the answer ends. */
  guard(follow: () => void): void {
    if (this.res === undefined) return;
    try {
      follow();
    } catch (error) {
      this.crash(error);
    }
  }

  crash(error: unknown): void {
    this.server.logError(error, this.operation, this.requestId);
    this.fail('INTERNAL');
  }

  streaming(options?: StreamOptions): StreamingResponse {
    this.#isShared = true;
    this.accept();
    return (this.#streaming = new StreamingResponse(this, options));
  }

  /** Keeps the response for `live`. It is not counted as open: a node that stops ends its live readers first. */
  follow(live: LiveAnswer): void {
    const { res } = this;
    if (res === undefined || this.isAccepted) return;
    this.isAccepted = true;
    this.#live = live;
    whenGone(res, this.#abort);
  }

  /** The status of an event stream is out; what follows is not counted. */
  opened(status: number): void {
    this.server.count(this.operation, status, this.startedMs);
  }

  /** Ends an answer that opened() has counted. */
  finish(): void {
    const { res } = this;
    if (res === undefined) return;
    this.end();
    res.cork(() => res.end());
  }

  /** Ends the request with a refusal that no shard gave. */
  refuse(code: ErrorCode, detail?: string): void {
    this.respond((res) => this.responder.error(res, this.family, code, detail));
  }

  /** Ends it with what a shard refused. */
  refuseReply(reply: Reply): void {
    this.respond((res) => this.responder.refusal(res, this.family, reply));
  }

  /** 405 with the methods that the route does have. */
  methodNotAllowed(allow: string): void {
    this.respond((res) => this.responder.methodNotAllowed(res, allow));
  }

  /** A refusal, or a cut when part of the answer is out. */
  fail(code: ErrorCode, detail?: string): void {
    if (this.#live !== undefined) this.#live.fail(code);
    else if (this.#streaming?.isBegun === true) this.cut();
    else this.refuse(code, detail);
  }

  /** The answer with `status` is written. */
  done(status: number): void {
    this.server.count(this.operation, status, this.startedMs);
    this.end();
  }

  /** Cuts the connection; `status` is what the metrics count. */
  close(status: number): void {
    const { res } = this;
    if (res === undefined) return;
    this.done(status);
    res.close();
  }

  /** Part of the answer is out and the rest cannot come. */
  cut(): void {
    const { res } = this;
    if (res === undefined) return;
    this.end();
    res.close();
  }

  #writeReply(): void {
    const { res } = this;
    const renderer = this.#renderer;
    if (res === undefined || answering === undefined || renderer === undefined) return;
    try {
      if (answering.code === 0) this.done(renderer.render(this, res, answering));
      else {
        const status = renderer.renderRefusal?.(this, res, answering);
        this.done(status ?? this.responder.refusal(res, this.family, answering));
      }
    } catch (error) {
      // Part of an answer may be out already.
      this.server.logError(error, this.operation, this.requestId);
      this.cut();
    }
  }

  #aborted(): void {
    const live = this.#live;
    this.end();
    live?.gone();
    this.onAbort?.();
  }

  /** Answered, or the client is gone. A reply that is on its way is dropped when it comes. */
  protected end(): void {
    if (this.res === undefined) return;
    this.res = undefined;
    this.#streaming?.release();
    if (!this.#sent) this.#over();
  }

  #over(): void {
    this.#body?.release();
    this.releaseRequest();
    this.#renderer = undefined;
    this.#consumer = undefined;
    if (!this.isAccepted) return;
    if (this.#live === undefined) this.server.closed();
    this.#live = undefined;
    if (!this.#isShared && this.#body?.isPending !== true) this.#pool.give(this);
  }
}
