/**
 * The reserved routes below /v1/stream/__ds/: subscriptions, and the public keys of their webhooks. What they mean is decided by the
 * port behind them; here a request becomes a value and an answer becomes a response.
 */
import { SUBSCRIPTION_BODY_BYTES_MAX } from '../base/limits.ts';
import { BodyExchange } from './body.ts';
import { declaredBytes } from './headers.ts';
import type { Plane } from './plane.ts';
import { JSON_TYPE, type Responder } from './respond.ts';
import { CONTROL_PREFIX } from './routes.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

export interface ControlRequest {
  /** In lower case; HEAD comes as get. */
  readonly method: string;
  /** Below the prefix, as it was sent. */
  readonly path: string;
  /** Empty when there is none. */
  readonly authorization: string;
  /** Scheme and authority that the client used. */
  readonly origin: string;
  /** The request's own. */
  readonly body: Uint8Array;
}

export interface ControlAnswer {
  readonly status: number;
  /** Undefined: none. */
  readonly json?: unknown;
  readonly contentType?: string;
  /** Anybody may keep it for a while. */
  readonly cache?: 'public';
  /** Methods, of a 405. */
  readonly allow?: string;
  /** The same request may succeed later. */
  readonly retry?: boolean;
}

export interface ControlPort {
  handle(request: ControlRequest): Promise<ControlAnswer>;
}

/** Tokens of their own protect them, and public keys are public: the plane's token is not asked for. */
const OPEN = /^\/v1\/stream\/__ds\/(jwks\.json|subscriptions\/[^/]+\/(callback|ack|release))$/;

export function hasOwnToken(url: string): boolean {
  return url.startsWith(CONTROL_PREFIX) && OPEN.test(url);
}

export function handleControl(
  plane: Plane,
  port: ControlPort,
  res: UwsResponse,
  req: UwsRequest,
  method: string,
  responder: Responder,
  startedMs: number,
): void {
  const scheme = plane.ctx.settings.tls === undefined ? 'http' : 'https';
  const exchange = new ControlExchange(plane, port, {
    method: method === 'head' ? 'get' : method,
    path: req.getUrl().slice(CONTROL_PREFIX.length),
    authorization: req.getHeader('authorization'),
    origin: `${scheme}://${req.getHeader('host')}`,
  });
  const declared = declaredBytes(req.getHeader('content-length'));
  exchange.open(res, responder, 'flat', 'other', startedMs);
  if (method === 'get' || method === 'head') exchange.begin(new Uint8Array(0));
  else if (declared > SUBSCRIPTION_BODY_BYTES_MAX) exchange.tooLarge();
  else exchange.readBody(res, declared);
}

class ControlExchange extends BodyExchange {
  readonly #port: ControlPort;
  readonly #request: Omit<ControlRequest, 'body'>;

  constructor(plane: Plane, port: ControlPort, request: Omit<ControlRequest, 'body'>) {
    super(plane);
    this.#port = port;
    this.#request = request;
  }

  begin(body: Uint8Array): void {
    this.#port.handle({ ...this.#request, body }).then(
      (answer) => this.#write(answer),
      (error: unknown) => {
        this.plane.logError(error, `${this.#request.method} ${this.#request.path}`);
        this.fail('INTERNAL');
      },
    );
  }

  tooLarge(): void {
    const message = `the body exceeds ${SUBSCRIPTION_BODY_BYTES_MAX} bytes`;
    this.#write({ status: 413, json: { error: { code: 'INVALID_REQUEST', message } } });
  }

  protected override bodyReady(body: Uint8Array): void {
    if (body.length > SUBSCRIPTION_BODY_BYTES_MAX) this.tooLarge();
    // The memory is gone after this call.
    else this.begin(body.slice());
  }

  protected override answer(): number {
    throw new Error('no shard answers a control request');
  }

  #write(answer: ControlAnswer): void {
    const { res, responder } = this;
    // The client is gone.
    if (res === undefined || responder === undefined) return;
    res.cork(() => {
      if (answer.allow === undefined) write(res, responder, answer);
      else responder.methodNotAllowed(res, answer.allow);
      this.done(answer.status);
    });
  }
}

/** The code of `{"error":{"code":...}}`, the shape of all refusals here. */
function codeOf(json: unknown): string | undefined {
  if (typeof json !== 'object' || json === null || !('error' in json)) return undefined;
  const { error } = json;
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

function write(res: UwsResponse, responder: Responder, answer: ControlAnswer): void {
  const { status, json, contentType, cache, retry } = answer;
  responder.begin(res, status, cache, codeOf(json));
  if (retry === true) res.writeHeader('retry-after', '1');
  if (status === 401) res.writeHeader('www-authenticate', 'Bearer');
  if (json !== undefined) res.writeHeader('content-type', contentType ?? JSON_TYPE);
  if (json === undefined) res.endWithoutBody();
  else responder.end(res, JSON.stringify(json));
}
