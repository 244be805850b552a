/**
 * A request on a node that traces. Nodes that do not trace make plain contexts instead, so they pay for none of this.
 * Names and attributes are those of OpenTelemetry's conventions for HTTP, and ours begin with `millrace.`. Queries
 * and headers are never among them, because both can hold tokens.
 */
import { errorCode, type ErrorCode } from '../base/errors.ts';
import type { ReplyHandler, RequestTrace, RequestTraces, ShardGateway, TraceAttributes } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import { ALL_GROUPS, type Request } from '../protocol/request.ts';
import type { HttpServerContext } from './server-context.ts';
import { type ContextPool, type ReplyRenderer, RequestContext } from './request.ts';
import type { Responder } from './response.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

/** Others are `_OTHER`, so that clients cannot make up names of spans. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']);
const FLAT_ROUTE = '/v1/stream/{path}';
const FLAT_PREFIX = '/v1/stream/';

export class TracedRequest extends RequestContext {
  readonly #traces: RequestTraces;
  /** Undefined: it was not chosen, or it is over. */
  #trace: RequestTrace | undefined;
  #path = '';

  constructor(server: HttpServerContext, responder: Responder, pool: ContextPool, traces: RequestTraces) {
    super(server, responder, pool);
    this.#traces = traces;
  }

  override begin(res: UwsResponse, req: UwsRequest, startedMs: number): void {
    super.begin(res, req, startedMs);
    this.#trace = this.#traces.begin(req.getHeader('traceparent'));
    if (this.#trace !== undefined) this.#path = req.getUrl();
  }

  override send(request: Request, renderer: ReplyRenderer, through?: Pick<ShardGateway, 'send'>): void {
    // Others use the object as well.
    request.isTraced = this.#trace !== undefined;
    super.send(request, renderer, through);
    request.isTraced = false;
    this.#asked(request.group);
  }

  override sendThrough(send: (handler: ReplyHandler) => boolean, renderer: ReplyRenderer, busy: ErrorCode): void {
    super.sendThrough(send, renderer, busy);
    this.#asked(this.group);
  }

  override onReply(reply: Reply): void {
    this.#trace?.answered(reply.code === 0 ? {} : { 'millrace.error': errorCode(reply.code) }, reply.stages);
    super.onReply(reply);
  }

  override opened(status: number): void {
    super.opened(status);
    this.#finish();
  }

  protected override end(): void {
    this.#finish();
    super.end();
  }

  #asked(group: number): void {
    if (group === ALL_GROUPS) this.#trace?.asked({});
    else this.#trace?.asked({ 'millrace.group': group, 'millrace.shard': group % this.gateway.shardCount });
  }

  #finish(): void {
    const trace = this.#trace;
    if (trace === undefined) return;
    this.#trace = undefined;
    const sent = this.method.toUpperCase();
    const method = METHODS.has(sent) ? sent : '_OTHER';
    const route = this.#route();
    const attributes: Record<string, string | number> = {
      'http.request.method': method,
      'url.scheme': this.server.settings.tls === undefined ? 'http' : 'https',
      'url.path': this.#path,
      'server.address': this.server.address,
      'millrace.operation': this.operation,
      'millrace.request_id': this.requestId,
      ...outcome(this.status),
    };
    if (route !== '') attributes['http.route'] = route;
    trace.end({ name: route === '' ? method : `${method} ${route}`, attributes, isFailed: this.status >= 500 });
  }

  #route(): string {
    const { pattern = '' } = this.route;
    return this.family === 'flat' && !pattern.startsWith(FLAT_PREFIX) && pattern !== '' ? FLAT_ROUTE : pattern;
  }
}

/** Without a status the client left first, or the connection was cut. */
function outcome(status: number): TraceAttributes {
  if (status === 0) return { 'error.type': 'no_answer' };
  return { 'http.response.status_code': status, ...(status < 500 ? {} : { 'error.type': String(status) }) };
}
