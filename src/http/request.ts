/**
 * One request, from its route handler to the end of its answer: the only owner of `res`. It counts the request as
 * open, hears when the client leaves, holds the bytes of the body, writes refusals and counts the answer. A handler
 * answers at once (respond() and what is made of it), or in one of these ways, each an object of its own:
 *
 * - send(): a shard is asked, and its reply becomes the answer (reply-answer.ts).
 * - keep(): several replies, or a promise, become one answer, with the methods of an answer at once.
 * - streaming(): pieces at the pace of the reader (streaming.ts).
 * - follow(): a live reader answers when something is appended (live/).
 *
 * Contexts are pooled, with their callbacks bound once: uWebSockets.js takes functions (abort, data, cork), and
 * closures made for each request would cost three allocations.
 */
import type { ErrorCode, RefusalReason } from '../base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import type { StreamName } from '../protocol/flat-path.ts';
import type { Reply } from '../protocol/reply.ts';
import { type Asking, type Request, fillRequest } from '../protocol/request.ts';
import type { Credentials } from '../access/admission.ts';
import type { BodyBudget } from '../access/bodies.ts';
import { RequestMeters } from '../access/request-meters.ts';
import type { GrantHolder } from '../access/grant-holders.ts';
import { type AuditedRequest, askedOf, leaveLine } from './audited.ts';
import { type Consumer, BodyReader } from './body.ts';
import { type RouteFamily, NO_ROUTE, type RouteTraits } from './context.ts';
import { type GuardedAbort, type ResponseOwner, type SocketOwner, guardAbort, whenGone } from './guard.ts';
import type { WriteHeaders } from './headers.ts';
import { type ParsedPath, newPath } from './paths.ts';
import { ReplyAnswer, type Renderer } from './reply-answer.ts';
import type { Responder } from './response.ts';
import type { HttpServerContext } from './server-context.ts';
import { type ResponseHolder, type StreamOptions, StreamingResponse } from './streaming.ts';
import type { UwsHandshake, UwsRequest, UwsResponse } from './uws.ts';

export type ReplyRenderer = Renderer<RequestContext>;
export type BodyConsumer = Consumer<RequestContext>;

/** The holder of something that an answer needs hears how the answer ends. */
export interface Answer {
  /** Ends it with a refusal, in a form that fits what is out already. Harmless after the end. */
  fail?(code: ErrorCode, detail?: string): void;
  /** Called when the request is answered, cut, or its client is gone. */
  release?(): void;
  /** Called when the client has left. The context is over, and must not be touched again. */
  gone?(): void;
}

export interface ContextPool {
  give(call: RequestContext): void;
}

/**
 * The response is held by the running handler alone; the context, which serves other requests after the answer; others who
 * may know the context longer; a live reader, which is not counted as open: a node that stops ends live readers first.
 */
type Hold = 'handler' | 'context' | 'others' | 'live';

export class RequestContext implements ReplyHandler, ResponseOwner, ResponseHolder, GrantHolder {
  readonly server: HttpServerContext;
  readonly gateway: ShardGateway;
  /** The names in the URL. */
  readonly path: ParsedPath = newPath();
  route: RouteTraits = NO_ROUTE;
  /** The metrics count the answer as this: the route's operation, unless the handler finds that it is another. */
  operation: RouteTraits['operation'] = 'other';
  /** The HTTP method in lower case. */
  method = '';
  /** The request asks for a WebSocket. */
  handshake: UwsHandshake | undefined = undefined;
  responder: Responder;
  /** The rights of the sender; none before they are known. */
  credentials: Credentials = 'missing';
  readonly meters: RequestMeters;
  startedMs = 0;
  /** Undefined once the answer has ended, so nothing can touch a dead response. */
  res: UwsResponse | undefined = undefined;
  #hold: Hold = 'handler';
  #req: UwsRequest | undefined = undefined;
  /** The response of this request or, of a spare context, of the last one: later failures are logged with its id. */
  #answered: UwsResponse | undefined = undefined;
  #answer: Answer | undefined = undefined;
  /** The reader of bodies, made for the first one. */
  #body: BodyReader<RequestContext> | undefined = undefined;
  #request: Request | undefined = undefined;
  /** The audit log gets a line when the request is over. */
  #asked: AuditedRequest | undefined = undefined;
  /** Status of the answer that went out; 0: none. */
  protected status = 0;
  readonly #reply = new ReplyAnswer<RequestContext>(this);
  readonly #pool: ContextPool;
  readonly #abort: GuardedAbort;

  constructor(server: HttpServerContext, responder: Responder, pool: ContextPool) {
    this.server = server;
    this.gateway = server.gateway;
    this.meters = new RequestMeters(server.limits);
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
    this.path.family = 'bucketed';
    this.route = NO_ROUTE;
    this.operation = 'other';
    this.credentials = 'missing';
    this.status = 0;
    this.#hold = 'handler';
    this.#reply.isAwaited = false;
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

  /** The id of the request in refusals and log lines, made when it is first asked for. */
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

  /** It outlives its route handler, and is open until its answer has ended. */
  get isAccepted(): boolean {
    return this.#hold !== 'handler';
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

  get family(): RouteFamily {
    return this.path.family;
  }

  get bucket(): string {
    return this.path.bucket;
  }

  get stream(): string {
    return this.path.stream;
  }

  /** The group of the stream which the path names. */
  get group(): number {
    const { group, bucket, stream } = this.path;
    return group >= 0 ? group : this.gateway.groupOf(bucket, stream);
  }

  /** Keeps the response after the route handler has returned. */
  accept(hold: Exclude<Hold, 'handler'> = 'context'): void {
    const { res } = this;
    if (res === undefined || this.isAccepted) return;
    this.#hold = hold;
    if (hold !== 'live') this.server.open++;
    whenGone(res, this.#abort);
  }

  /** Accepts the request and reads its body; call it last in the handler. `declared`: Content-Length, -1: unknown. */
  readBody(declared: number, consumer: BodyConsumer, budget: BodyBudget = this.server.budget): void {
    this.accept();
    const { res, route } = this;
    if (res === undefined) return;
    const body = (this.#body ??= new BodyReader<RequestContext>(this.server, this));
    body.consumer = consumer;
    body.read(res, declared, route.bodyBytesMax ?? 0, budget);
  }

  /** Answers with a WebSocket, which `owner` has from now on. Only inside the route handler. */
  upgrade(owner: SocketOwner, protocol: string): void {
    const { res, req, handshake } = this;
    if (res === undefined || handshake === undefined) return;
    res.upgrade({ owner }, req.getHeader('sec-websocket-key'), protocol, '', handshake);
    this.done(101);
  }

  /** Sends a query about the stream that the path names. */
  ask(operation: Asking<StreamName>, renderer: ReplyRenderer): void {
    const { query } = this.server;
    const { bucket, stream } = this;
    fillRequest(query, operation, this.group, { bucket, stream });
    this.send(query, renderer);
  }

  /** Accepts the request and asks a shard, or answers 503 at once. */
  send(request: Request, renderer: ReplyRenderer, through: Pick<ShardGateway, 'send'> = this.gateway): void {
    this.accept();
    const reply = this.#reply;
    reply.renderer = renderer;
    reply.isAwaited = through.send(request, this);
    if (!reply.isAwaited) this.refuse('SHARD_BUSY');
  }

  /** As send(), by way of a service that asks in its place; false: `busy` is the answer. */
  sendThrough(send: (handler: ReplyHandler) => boolean, renderer: ReplyRenderer, busy: ErrorCode): void {
    const reply = this.#reply;
    reply.renderer = renderer;
    reply.isAwaited = send(this);
    if (!reply.isAwaited) this.refuse(busy);
  }

  onReply(reply: Reply): void {
    this.#reply.take(reply);
  }

  /** Writes the answer to `reply`, if the client is still there. */
  deliver(reply: Reply): void {
    this.#reply.deliver(reply);
  }

  /** Keeps response and context for what comes later: the first answer ends it, and all are harmless after the end. */
  keep(answer?: Answer): void {
    this.accept();
    if (this.#hold === 'context') this.#hold = 'others';
    if (answer !== undefined) this.#answer = answer;
  }

  streaming(options?: StreamOptions): StreamingResponse {
    const response = new StreamingResponse(this, options);
    this.keep(response);
    return response;
  }

  follow(live: Answer): void {
    if (this.res === undefined || this.isAccepted) return;
    this.#answer = live;
    this.accept('live');
    this.server.holders.hold(this.credentials, this);
  }

  /** The token of a live reader is valid no longer. */
  grantEnded(): void {
    this.guard(() => this.fail('UNAUTHORIZED'));
  }

  /** The status of an event stream is out; what follows is not counted. */
  opened(status: number): void {
    this.status = status;
    this.server.count(this.operation, status, this.startedMs);
  }

  /** A whole answer of any form: `render` writes it and returns its status. Harmless after the end. */
  respond(render: (res: UwsResponse) => number): void {
    const { res } = this;
    if (res === undefined) return;
    res.cork(() => this.done(render(res)));
  }

  json(status: number, value: unknown): void {
    this.respond((res) => this.responder.json(res, status, JSON.stringify(value)));
  }

  text(status: number, sentence: string): void {
    this.respond((res) => this.responder.text(res, status, sentence));
  }

  empty(status: 200 | 201 | 204): void {
    this.respond((res) => this.responder.empty(res, status));
  }

  /** Ends the request with a refusal that no shard gave. */
  refuse(code: ErrorCode, detail?: string, retrySeconds?: number): void {
    this.respond((res) => this.responder.error(res, this.family, { code, detail, retrySeconds }));
  }

  /** Ends it with a refusal for who sends it. Only inside the route handler. */
  deny({ code, detail }: RefusalReason): void {
    this.audit().isDenied = true;
    this.refuse(code, detail);
  }

  /** The audit log names the token that the sender gets. */
  issued(token: string): void {
    if (this.#asked !== undefined) this.#asked.token = token;
  }

  /** Leaves a line in the audit log when the request is over. Only inside the route handler. */
  audit(): AuditedRequest {
    return (this.#asked ??= askedOf(this));
  }

  /** Ends it with what a shard refused. */
  refuseReply(reply: Reply): void {
    this.respond((res) => this.responder.refusal(res, this.family, reply));
  }

  /** A refusal, or a cut when part of the answer is out. */
  fail(code: ErrorCode, detail?: string): void {
    if (this.#answer?.fail !== undefined) this.#answer.fail(code, detail);
    else this.refuse(code, detail);
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

  /** The answer with `status` is written. */
  done(status: number): void {
    this.status = status;
    this.server.count(this.operation, status, this.startedMs);
    this.end();
  }

  /** Ends an answer that opened() has counted. */
  finish(): void {
    const { res } = this;
    if (res === undefined) return;
    this.end();
    res.cork(() => res.end());
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

  #aborted(): void {
    const answer = this.#answer;
    this.end();
    answer?.gone?.();
  }

  /** Answered, or the client is gone. A reply that is on its way is dropped when it comes. */
  protected end(): void {
    if (this.res === undefined) return;
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked !== undefined) leaveLine(this, asked, this.status);
    this.res = undefined;
    this.meters.removeReader();
    if (this.#hold === 'live') this.server.holders.release(this.credentials, this);
    this.#answer?.release?.();
    if (!this.#reply.isAwaited) this.over();
  }

  /** Ends the request, which waits for nothing more. The context serves other requests, unless others may hold it. */
  over(): void {
    this.#body?.release();
    this.releaseRequest();
    this.#reply.renderer = undefined;
    this.#answer = undefined;
    if (this.#hold === 'handler') return;
    if (this.#hold !== 'live') this.server.closed();
    if (this.#hold !== 'others' && this.#body?.isPending !== true) this.#pool.give(this);
  }
}
