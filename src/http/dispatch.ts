/**
 * Everything that comes before the route, for every request of a plane: admission, CORS, OPTIONS, stopping; and the net below
 * the handlers. Whatever a handler does, the request ends in an answer or with its connection, never with the process.
 */
import type { RequestAdmission } from './admission.ts';
import { backpressureOf } from './backpressure.ts';
import type { CorsPolicy } from './cors.ts';
import { beginHandler, failSafely, isDead, ownerOf } from './guard.ts';
import { type WriteHeaders, walkHeaders } from './headers.ts';
import { type RequestContext, RequestPool } from './request.ts';
import { type Responder, Responders } from './response.ts';
import type { Router } from './router.ts';
import type { HttpServerContext } from './server-context.ts';
import type { UwsApp, UwsRequest, UwsResponse } from './uws.ts';

export interface Plane {
  readonly server: HttpServerContext;
  readonly cors: CorsPolicy;
  readonly admission: RequestAdmission;
  readonly router: Router;
}

export function serve(app: UwsApp, plane: Plane): void {
  const { server, cors } = plane;
  const responders = new Responders(cors, backpressureOf(server.ctx), server.settings.readCache);
  const pool = new RequestPool(server, responders.for('', false));
  app.any('/*', (res, req) => {
    const call = pool.take();
    let responder: Responder | undefined;
    beginHandler(res);
    try {
      call.begin(res, req, server.ctx.monotonicMs());
      call.method = req.getMethod();
      const headers = walkHeaders(req);
      call.responder = responder = responders.for(headers.origin, call.method === 'head');
      const result = handle(plane, call, req, headers);
      if (result instanceof Promise) watchPromise(server, res, result);
      if (ownerOf(res) === undefined && responder.ended !== res && !isDead(res)) {
        throw new Error('the handler returned without an answer');
      }
      // A promise may still hold it.
      if (!(result instanceof Promise)) call.returned();
    } catch (error) {
      answerCrash({ call, res, responder }, error);
    }
  });
}

/** What the route returns is for the net: nothing, unless somebody made a handler async. */
function handle(
  { server, admission, router }: Plane,
  call: RequestContext,
  req: UwsRequest,
  headers: WriteHeaders,
): unknown {
  const { fault } = headers.framing;
  if (fault !== undefined) return refuseFraming(call, fault);
  const refusal = admission.refuses(headers, req, call.method);
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  if (call.method === 'options') return call.preflight(router.allow(req.getUrl()));
  if (server.closing) return call.refuse('STOPPING');
  return router.route(call, req.getUrl());
}

/**
 * 400, and the connection is closed. Not at once: answered inside the handler, what follows on the connection would be taken for
 * the next request. While this answer is pending the library closes the connection instead of reading on.
 */
function refuseFraming(call: RequestContext, fault: string): void {
  call.aggregate();
  setImmediate(() => call.refuseAndClose('INVALID_HEADER', fault));
}

/** An async handler that took the response over may fail later. */
function watchPromise({ logError }: HttpServerContext, res: UwsResponse, result: Promise<unknown>): void {
  const owner = ownerOf(res);
  result.catch((error: unknown) => {
    if (owner === undefined) logError(error, 'handler');
    else failSafely(logError, owner, error);
  });
}

interface Crashed {
  readonly call: RequestContext;
  readonly res: UwsResponse;
  /** Undefined: it crashed before its headers were read. */
  readonly responder: Responder | undefined;
}

/** Whoever took the response over ends it; else it gets 500, or is closed when part of an answer is written. */
function answerCrash({ call, res, responder }: Crashed, error: unknown): void {
  const { logError } = call.server;
  const owner = ownerOf(res);
  if (owner !== undefined) return failSafely(logError, owner, error);
  logError(error, 'handler');
  try {
    if (responder?.ended === res || isDead(res)) return;
    if (responder === undefined || responder.begun === res) return void res.close();
    call.family = 'bucketed';
    call.operation = 'other';
    call.refuse('INTERNAL');
  } catch (again) {
    logError(again, 'answering a crash');
    if (!isDead(res)) res.close();
  }
}
