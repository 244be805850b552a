/**
 * The two HTTP listeners of a node: the client plane (streams, buckets, metrics) and the admin plane
 * (operators). Both run on the main thread on uWebSockets.js.
 *
 * Timeouts of uWebSockets.js, as its source has them (20.51 to 20.69), all fixed at 10 s with a granularity of 4 s:
 * - A connection that has sent no request, or none since its last answer, is closed after 8 to 12
 *   s (measured). No member of AppOptions and no environment variable changes that: the only one
 *   that the builds read is UWS_HTTP_MAX_HEADERS_SIZE.
 * - While a request waits for its answer there is NO timeout: a long-poll may wait for minutes.
 * - While a body is awaited the connection must bring 160 KiB in 10 s or finish, else it is aborted.
 * - A write that the kernel did not take whole starts a 10 s timeout, which progress renews. When such a backlog
 *   drains on a response without onWritable, the 10 s keep running: a quiet event stream would be closed. A live
 *   reader that ever had a backlog therefore registers onWritable (backpressure.ts).
 * - A second request on a connection whose first waits for its answer (pipelining) closes the connection.
 * HTTP/1.0, absolute-form targets and `*` are answered 505 by the library before any of our code runs.
 */
import { AdminPolicy, ClientPolicy, RequestAdmission } from '../access/admission.ts';
import { ClientCertificates } from '../access/client-certificates.ts';
import type { HttpContext, HttpSettings } from './context.ts';
import { CorsPolicy } from '../access/cors.ts';
import { FailedTokens } from '../access/failed-tokens.ts';
import { failSafely, isDead, serveSockets } from './guard.ts';
import type { WriteHeaders } from './headers.ts';
import { Listener } from './listener.ts';
import { RequestContext } from './request.ts';
import { type Responder, Responders } from './response.ts';
import { AdminRouter, ClientRouter, type Router } from './router.ts';
import { beginHistory } from './routes/admin/node.ts';
import { ADMIN_ROWS, CLIENT_ROWS, type Operations, SESSION_PATH, bindRows, methodsOf } from './routes/table.ts';
import { HttpNode, HttpServerContext } from './server-context.ts';
import { TracedRequest } from './traced-request.ts';
import type { SessionPort } from './sockets.ts';
import { authorizationOf } from '../access/socket-tokens.ts';
import { type UwsApp, type UwsHandshake, type UwsRequest, type UwsResponse, loadUws } from './uws.ts';
import { refuseLimited } from './limited.ts';

export interface PlaneOptions {
  readonly ctx: HttpContext;
  readonly operations: Operations;
}

export interface Planes {
  /** Resolves to the port (useful for port 0). Rejects with ListenError when the address is taken or not ours. */
  listenClient(host: string, port: number): Promise<number>;
  listenAdmin(host: string, port: number): Promise<number>;
  /**
   * Stops listening, ends live readers cleanly, waits at most `graceMs` for the answers of accepted requests, and
   * closes all connections. New requests on open connections get 503 meanwhile.
   */
  close(graceMs: number): Promise<void>;
  /** Requests accepted and not answered. */
  openRequests(): number;
  /** From the next request on. A plane that asks for no token keeps asking for none. */
  changeTokens(tokens: { readonly client: string; readonly admin: string }): void;
  /** Tokens with scopes or roles are others now. Live readers and sessions of those that lost a right end. */
  grantsChanged(): void;
  /** From the next connection on. Throws when a plane cannot have them, which keeps those that it has. */
  renewCertificates(files: NonNullable<HttpSettings['tls']>): void;
}

export function createPlanes({ ctx, operations }: PlaneOptions): Planes {
  const uws = loadUws();
  const node = new HttpNode(ctx);
  const { tls, clientHosts, adminHosts, clientTokens, adminTokens } = ctx.settings;
  const open = (name: 'client' | 'admin', plane: Plane): Listener =>
    new Listener({
      ...{ uws, tls, name, log: ctx.logError, connections: ctx.connections[name] },
      install: (app) => serve(app, plane),
    });
  const ofClient = new HttpServerContext(node, { plane: 'client', address: clientHosts.listen, tokens: clientTokens });
  const ofAdmin = new HttpServerContext(node, { plane: 'admin', address: adminHosts.listen, tokens: adminTokens });
  const client = newClientPlane(ofClient, operations);
  const admin = newAdminPlane(ofAdmin, operations);
  const planes = [client.server, admin.server];
  const { history, metrics } = operations;
  beginHistory(admin.server, metrics, history);
  const listeners = { client: open('client', client), admin: open('admin', admin) };
  const both = [listeners.client, listeners.admin];
  return {
    listenClient: (host, port) => listeners.client.listen(host, port),
    listenAdmin: (host, port) => listeners.admin.listen(host, port),
    openRequests: () => client.server.open + admin.server.open,
    changeTokens: (tokens) => {
      for (const { admission, server } of [client, admin])
        if (admission.changeToken(tokens[server.plane])) server.holders.tokenChanged();
    },
    grantsChanged() {
      for (const { admission, server } of [client, admin]) {
        admission.changeGrants();
        server.holders.recheck();
      }
    },
    renewCertificates: (files) => both.forEach((listener) => listener.renew(files)),
    close: async (graceMs) => {
      for (const plane of planes) plane.closing = true;
      for (const listener of both) listener.stopListening();
      node.live.stop();
      client.sessions?.stop();
      history.end();
      for (const { holders } of planes) holders.stop();
      const ended = [client.server.idle().then(() => node.backpressure.idle()), admin.server.idle()];
      const idle = Promise.all([...ended, client.sessions?.idle()]);
      await Promise.race([idle, delay(graceMs)]);
      for (const listener of both) listener.closeConnections();
    },
  };
}

function newClientPlane(server: HttpServerContext, operations: Operations): Plane {
  const { corsOrigins, clientHosts: hosts, clientToken: token, clientTokens: book } = server.settings;
  const cors = new CorsPolicy(corsOrigins, methodsOf(CLIENT_ROWS));
  const rows = bindRows('client', { ...operations, knows: () => false });
  const router = new ClientRouter(rows, server.gateway);
  const policy = new ClientPolicy({ hosts, cors, hasToken: token !== '' || book !== undefined, routes: router });
  const refused = server.ctx.metrics.access;
  const failed = new FailedTokens(server.ctx.senders, () => server.ctx.monotonicMs());
  const admission = new RequestAdmission({ policy, token, book, routes: router, refused, failed });
  return { server, cors, router, admission, sessions: operations.sessions };
}

function newAdminPlane(server: HttpServerContext, operations: Operations): Plane {
  const { adminHosts, adminToken: token, adminTokens: book } = server.settings;
  const router = new AdminRouter(bindRows('admin', { ...operations, knows: (headers) => admission.knows(headers) }));
  const policy = new AdminPolicy(adminHosts, router);
  const refused = server.ctx.metrics.access;
  const admission = new RequestAdmission({ policy, token, book, routes: router, refused });
  // Only the console's own page may ask, and it needs no CORS header.
  const certificates = server.settings.tls?.adminCaPath === undefined ? undefined : new ClientCertificates();
  return { server, cors: new CorsPolicy([], methodsOf(ADMIN_ROWS)), router, admission, certificates };
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}

export interface Plane {
  readonly server: HttpServerContext;
  readonly cors: CorsPolicy;
  readonly admission: RequestAdmission;
  readonly router: Router;
  /** Undefined: its clients need none. */
  readonly certificates?: ClientCertificates | undefined;
  /** Undefined: the plane has no WebSockets. */
  readonly sessions?: SessionPort | undefined;
}

/**
 * Everything that comes before the route, for every request of a plane: admission, CORS, OPTIONS,
 * stopping; and the net below the handlers. Whatever a handler does, the request ends in an
 * answer or with its connection, never with the process.
 */
export function serve(app: UwsApp, plane: Plane): void {
  const { server, cors, sessions } = plane;
  const { headers, ids, backpressure, settings } = server;
  const responders = new Responders(cors, { backpressure, ids, readCache: settings.readCache });
  const pool = new RequestPool(server, responders.for('').body);
  const begin = (res: UwsResponse, req: UwsRequest, method?: string, handshake?: UwsHandshake): void => {
    const call = pool.take();
    let responder: Responder | undefined;
    try {
      call.begin(res, req, server.ctx.monotonicMs());
      call.method = method ?? req.getMethod();
      call.handshake = handshake;
      headers.walk(req);
      if (headers.requestId !== undefined) ids.keep(res, headers.requestId);
      const pair = responders.for(headers.origin);
      call.responder = responder = call.method === 'head' ? pair.head : pair.body;
      const result = handle(plane, call, req);
      if (result instanceof Promise) watchPromise(call, res, result);
      if (!call.isAccepted && responder.ended !== res && !isDead(res)) {
        throw new Error('the handler returned without an answer');
      }
      // A promise may still hold it.
      if (!(result instanceof Promise)) call.returned();
    } catch (error) {
      answerCrash({ call, res, responder }, error);
    }
  };
  // The library knows the method of appends without being asked for it.
  app.post('/*', (res, req) => begin(res, req, 'post'));
  app.any('/*', (res, req) => begin(res, req));
  if (sessions === undefined) return;
  serveSockets(app, {
    path: SESSION_PATH,
    limits: sessions.limits,
    log: server.logError,
    upgrade: (res, req, handshake) => begin(res, req, 'get', handshake),
    left: () => server.ctx.connections.client.left(),
  });
}

/** Returns nothing, unless a handler is async by mistake: then its promise, for the net. */
function handle({ server, admission, router, certificates }: Plane, call: RequestContext, req: UwsRequest): unknown {
  const { headers } = server;
  const { fault } = headers.framing;
  if (fault !== undefined) return refuseFraming(call, fault);
  const stranger = certificates?.refuses(call.res);
  if (stranger !== undefined) return call.deny(stranger);
  const asks = call.handshake === undefined ? call.method : askForSocket(headers, req);
  const credentials = admission.credentialsOf(headers, req, asks, call.res);
  const refusal = admission.refuses(headers, req, asks, credentials);
  call.credentials = credentials;
  if (refusal !== undefined) return call.deny(refusal);
  if (call.method === 'options') {
    const allow = router.allow(req.getUrl());
    return call.respond((res) => call.responder.preflight(res, allow));
  }
  if (server.closing) return call.refuse('STOPPING');
  const limited = call.meters.begin(credentials, call.startedMs);
  if (limited !== undefined) return refuseLimited(call, limited);
  return router.route(call, req.getUrl());
}

/** Any page may read what a WebSocket brings, so the rules are those for writes. Its token is among the protocols. */
function askForSocket(headers: WriteHeaders, req: UwsRequest): 'upgrade' {
  if (headers.authorization === '') headers.authorization = authorizationOf(req.getHeader('sec-websocket-protocol'));
  return 'upgrade';
}

/**
 * 400, and the connection is closed. Not at once: answered inside the handler, what follows on the connection would be
 * taken for the next request. While this answer is pending the library closes the connection instead of reading on.
 */
function refuseFraming(call: RequestContext, fault: string): void {
  call.keep();
  setImmediate(() => call.respond((res) => call.responder.refuseAndClose(res, 'INVALID_HEADER', fault)));
}

/** An async handler that took the response over may fail later. */
function watchPromise(call: RequestContext, res: UwsResponse, result: Promise<unknown>): void {
  const { isAccepted, server } = call;
  result.catch((error: unknown) => {
    if (isAccepted) failSafely(server.logError, call, error);
    else server.logError(error, 'handler', server.ids.of(res));
  });
}

interface Crashed {
  readonly call: RequestContext;
  readonly res: UwsResponse;
  /** Undefined when the handler crashed before the headers were read. */
  readonly responder: Responder | undefined;
}

/** A context that kept the response ends it; else the request gets 500, or is closed when part of one is written. */
function answerCrash({ call, res, responder }: Crashed, error: unknown): void {
  const { logError, ids } = call.server;
  if (call.isAccepted) return failSafely(logError, call, error);
  logError(error, 'handler', ids.of(res));
  try {
    if (responder?.ended === res || isDead(res)) return;
    if (responder === undefined || responder.begun === res) return void res.close();
    call.path.family = 'bucketed';
    call.operation = 'other';
    call.refuse('INTERNAL');
  } catch (again) {
    logError(again, 'answering a crash', ids.of(res));
    if (!isDead(res)) res.close();
  }
}

/** Contexts kept for reuse: a few hundred bytes each; more requests than this at once are rare. */
const KEPT_MAX = 1024;

export class RequestPool {
  readonly #server: HttpServerContext;
  readonly #responder: Responder;
  readonly #kept: RequestContext[] = [];

  constructor(server: HttpServerContext, responder: Responder) {
    this.#server = server;
    this.#responder = responder;
  }

  take(): RequestContext {
    return this.#kept.pop() ?? this.#make();
  }

  #make(): RequestContext {
    const { traces } = this.#server.ctx;
    if (traces === undefined) return new RequestContext(this.#server, this.#responder, this);
    return new TracedRequest(this.#server, this.#responder, this, traces);
  }

  give(call: RequestContext): void {
    if (this.#kept.length < KEPT_MAX) this.#kept.push(call);
  }
}
