/**
 * The reserved routes below /v1/stream/__ds/: subscriptions, and the public keys of their webhooks. What they mean is decided by the
 * port behind them; here a request becomes a value and an answer becomes a response.
 */
import { SUBSCRIPTION_BODY_BYTES_MAX } from '../../base/limits.ts';
import type { ControlAnswer, ControlHead, ControlPort, ControlTask } from '../../subscriptions/ports.ts';
import { BodyExchange } from '../body.ts';
import { declaredBytes } from '../headers.ts';
import type { Plane } from '../plane.ts';
import { JSON_TYPE, type Responder } from '../respond.ts';
import { CONTROL_PREFIX } from '../routes.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';

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
  const head: ControlHead = {
    method: method === 'head' ? 'get' : method,
    path: req.getUrl().slice(CONTROL_PREFIX.length),
    authorization: req.getHeader('authorization'),
    origin: `${scheme}://${req.getHeader('host')}`,
  };
  const declared = declaredBytes(req.getHeader('content-length'));
  const opened = openTask(port, head);
  const exchange = new ControlExchange(plane, port, 'run' in opened ? opened : undefined);
  exchange.open(res, responder, 'flat', 'other', startedMs);
  if (!('run' in opened)) exchange.write(opened);
  else if (head.method === 'get') exchange.begin(new Uint8Array(0));
  else exchange.readBody(res, declared);
}

/** What `Allow` names for a path below the prefix: what the port says to a method that nothing has. */
export function allowOfControl(port: ControlPort, url: string): string {
  const head: ControlHead = {
    method: 'options',
    path: url.slice(CONTROL_PREFIX.length),
    authorization: '',
    origin: '',
  };
  const opened = openTask(port, head);
  return 'run' in opened ? '' : (opened.allow ?? '');
}

function openTask(port: ControlPort, head: ControlHead): ControlAnswer | ControlTask {
  try {
    return port.open(head);
  } catch (error) {
    const answer = port.refusal(error);
    if (answer === undefined) throw error;
    return answer;
  }
}

class ControlExchange extends BodyExchange {
  readonly #port: ControlPort;
  readonly #task: ControlTask | undefined;

  constructor(plane: Plane, port: ControlPort, task: ControlTask | undefined) {
    super(plane);
    this.#port = port;
    this.#task = task;
    this.bytesMax = SUBSCRIPTION_BODY_BYTES_MAX;
    if (task?.fromStranger === true) this.budget = plane.strangers;
  }

  begin(body: Uint8Array<ArrayBuffer>): void {
    this.#task?.run(body).then(
      (answer) => this.write(answer),
      (error: unknown) => {
        const answer = this.#port.refusal(error);
        if (answer !== undefined) return this.write(answer);
        this.plane.logError(error, this.operation);
        return this.fail('INTERNAL');
      },
    );
  }

  protected override tooLarge(): void {
    const message = `the body exceeds ${SUBSCRIPTION_BODY_BYTES_MAX} bytes`;
    this.write({ status: 413, json: { error: { code: 'INVALID_REQUEST', message } } });
  }

  protected override bodyReady(body: Uint8Array): void {
    // The memory is gone after this call.
    this.begin(body.slice());
  }

  protected override answer(): number {
    throw new Error('no shard answers a control request');
  }

  write(answer: ControlAnswer): void {
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
