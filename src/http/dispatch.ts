/**
 * Everything that comes before the route, for every request of a plane: who may knock, CORS, OPTIONS, stopping; and the net below
 * the handlers. Whatever a handler does, the request ends in an answer or with its connection, never with the process.
 */
import type { AllowOf } from './allow.ts';
import type { CorsPolicy } from './cors.ts';
import type { Door } from './door.ts';
import { refuseFraming } from './framing.ts';
import { beginHandler, failSafely, isDead, ownerOf } from './guard.ts';
import { type WriteHeaders, walkHeaders } from './headers.ts';
import type { Plane, Router } from './plane.ts';
import type { Responder } from './respond.ts';
import { Responders } from './responders.ts';
import { unsentOf } from './unsent.ts';
import type { UwsApp, UwsRequest, UwsResponse } from './uws.ts';

export interface Service {
  readonly plane: Plane;
  readonly cors: CorsPolicy;
  readonly door: Door;
  readonly route: Router;
  /** For OPTIONS; undefined: it names no methods. */
  readonly allow?: AllowOf;
}

export function serve(app: UwsApp, service: Service): void {
  const { plane, cors } = service;
  const responders = new Responders(cors, unsentOf(plane.ctx), plane.ctx.settings.readCache);
  app.any('/*', (res, req) => {
    const startedMs = plane.ctx.monotonicMs();
    let responder: Responder | undefined;
    beginHandler(res);
    try {
      const method = req.getMethod();
      const headers = walkHeaders(req);
      responder = responders.for(headers.origin, method === 'head');
      const result: unknown = handle(service, { res, req, method, headers, responder, startedMs });
      if (result instanceof Promise) watchPromise(plane, res, result);
      if (ownerOf(res) === undefined && responder.ended !== res && !isDead(res)) {
        throw new Error('the handler returned without an answer');
      }
    } catch (error) {
      answerCrash({ plane, res, responder, startedMs }, error);
    }
  });
}

interface Arrival {
  readonly res: UwsResponse;
  readonly req: UwsRequest;
  readonly method: string;
  readonly headers: WriteHeaders;
  readonly responder: Responder;
  readonly startedMs: number;
}

/** What the route returns is for the net: nothing, unless somebody made a handler async. */
function handle({ plane, door, route, allow }: Service, arrival: Arrival): unknown {
  const { res, req, method, headers, responder, startedMs } = arrival;
  const { fault } = headers.framing;
  if (fault !== undefined) return refuseFraming(plane, res, responder, startedMs, fault);
  const refusal = door.refuses(headers, req, method);
  if (refusal !== undefined) {
    return plane.refuse(res, responder, 'bucketed', 'other', startedMs, refusal.code, refusal.detail);
  }
  if (method === 'options') {
    responder.preflight(res, allow?.(req.getUrl()) ?? '');
    return plane.count('other', 204, startedMs);
  }
  if (plane.closing) return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'STOPPING');
  return route(res, req, method, responder, startedMs);
}

/** An async handler that took the response over may fail later. */
function watchPromise(plane: Plane, res: UwsResponse, result: Promise<unknown>): void {
  const owner = ownerOf(res);
  result.catch((error: unknown) => {
    if (owner === undefined) plane.logError(error, 'handler');
    else failSafely(plane.logError, owner, error);
  });
}

interface Crashed {
  readonly plane: Plane;
  readonly res: UwsResponse;
  readonly responder: Responder | undefined;
  readonly startedMs: number;
}

/** Whoever took the response over ends it; else it gets 500, or is closed when part of an answer is written. */
function answerCrash({ plane, res, responder, startedMs }: Crashed, error: unknown): void {
  const owner = ownerOf(res);
  if (owner !== undefined) return failSafely(plane.logError, owner, error);
  plane.logError(error, 'handler');
  try {
    if (responder?.ended === res || isDead(res)) return;
    if (responder === undefined || responder.begun === res) res.close();
    else plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'INTERNAL');
  } catch (again) {
    plane.logError(again, 'answering a crash');
    if (!isDead(res)) res.close();
  }
}
