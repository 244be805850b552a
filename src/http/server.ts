/**
 * The two HTTP listeners of a node: the client plane (streams, buckets, metrics) and the admin plane (operators). Both run
 * on the main thread on uWebSockets.js.
 *
 * Timeouts of uWebSockets.js, as its source has them (20.51 to 20.69), all fixed at 10 s with a granularity of 4 s:
 * - A connection that has sent no request, or none since its last answer, is closed after 8 to 12 s (measured). No member of
 *   AppOptions and no environment variable changes that: the only one that the builds read is UWS_HTTP_MAX_HEADERS_SIZE.
 * - While a request waits for its answer there is NO timeout: a long-poll may wait for minutes.
 * - While a body is awaited the connection must bring 160 KiB in 10 s or finish, else it is aborted.
 * - A write that the kernel did not take whole starts a 10 s timeout, which progress renews. When such a backlog drains on
 *   a response without onWritable, the 10 s keep running: a quiet event stream would be closed. A live reader that ever
 *   had a backlog therefore registers onWritable (see live/socket.ts).
 * - A second request on a connection whose first waits for its answer (pipelining) closes the connection.
 * HTTP/1.0, absolute-form targets and `*` are answered 505 by the library before any of our code runs.
 */
import { clientAllow } from './allow.ts';
import { AppendPool } from './routes/append.ts';
import type { HttpContext, HttpSettings } from './contract.ts';
import type { ControlPort } from '../subscriptions/ports.ts';
import { CorsPolicy } from './cors.ts';
import { clientRoutes } from './client.ts';
import { endAllLive } from './live/live.ts';
import { Listener } from './listener.ts';
import type { MetricsSource } from './routes/admin/metrics-route.ts';
import { type Service, serve } from './dispatch.ts';
import { Door } from './door.ts';
import { AdminGate, ClientGate } from './gate.ts';
import { BodyBudget, Plane } from './plane.ts';
import { type Operations, adminRoutes, clientService } from './routes/admin/service.ts';
import { unsentOf } from './unsent.ts';
import { loadUws } from './uws.ts';

export interface PlaneOptions {
  readonly ctx: HttpContext;
  readonly source: MetricsSource;
  readonly operations: Operations;
  /** Undefined: the reserved routes are not served. */
  readonly control?: ControlPort;
}

export interface Planes {
  /** Resolves to the port (useful for port 0). Rejects with ListenError when the address is taken or not ours. */
  listenClient(host: string, port: number): Promise<number>;
  listenAdmin(host: string, port: number): Promise<number>;
  /**
   * Stops listening, ends live readers cleanly, waits at most `graceMs` for the answers of accepted requests, and closes all
   * connections. New requests on open connections get 503 meanwhile.
   */
  close(graceMs: number): Promise<void>;
  /** Requests accepted and not answered. */
  openRequests(): number;
  /** From the next request on. A plane that asks for no token keeps asking for none. */
  changeTokens(tokens: { readonly client: string; readonly admin: string }): void;
  /** From the next connection on. Throws when a plane cannot have them, which keeps those that it has. */
  renewCertificates(files: NonNullable<HttpSettings['tls']>): void;
}

export function createPlanes(options: PlaneOptions): Planes {
  const { ctx, source, operations, control } = options;
  const uws = loadUws();
  const budget = new BodyBudget(ctx.settings.inflightBodyBytes);
  const client = new Plane(ctx, budget);
  const admin = new Plane(ctx, budget);
  const cors = new CorsPolicy(ctx.settings.corsOrigins);
  // Browsers have no business on the admin plane: no origin is allowed there.
  const noCors = new CorsPolicy([]);
  const { clientToken, adminToken, clientHosts, adminHosts, tls } = ctx.settings;
  const service = clientService(operations);
  const clientPlane: Service = {
    plane: client,
    cors,
    door: new Door(new ClientGate({ hosts: clientHosts, cors, hasToken: clientToken !== '' }), clientToken),
    route: clientRoutes(client, new AppendPool(), source, service, control),
    allow: clientAllow(service, control),
  };
  const adminDoor = new Door(new AdminGate(adminHosts), adminToken);
  const adminPlane: Service = {
    plane: admin,
    cors: noCors,
    door: adminDoor,
    route: adminRoutes(admin, source, operations, (headers) => adminDoor.knows(headers)),
  };
  const common = { uws, tls, log: ctx.logError };
  const clientListener = new Listener({
    ...common,
    name: 'client',
    connections: ctx.connections.client,
    install: (app) => serve(app, clientPlane),
  });
  const adminListener = new Listener({
    ...common,
    name: 'admin',
    connections: ctx.connections.admin,
    install: (app) => serve(app, adminPlane),
  });
  return {
    listenClient: (host, port) => clientListener.listen(host, port),
    listenAdmin: (host, port) => adminListener.listen(host, port),
    openRequests: () => client.open + admin.open,
    changeTokens: (tokens) => {
      clientPlane.door.changeToken(tokens.client);
      adminPlane.door.changeToken(tokens.admin);
    },
    renewCertificates: (files) => {
      clientListener.renew(files);
      adminListener.renew(files);
    },
    close: async (graceMs) => {
      client.closing = true;
      admin.closing = true;
      clientListener.stopListening();
      adminListener.stopListening();
      endAllLive(ctx);
      await Promise.race([Promise.all([client.idle().then(() => unsentOf(ctx).idle()), admin.idle()]), delay(graceMs)]);
      clientListener.closeConnections();
      adminListener.closeConnections();
    },
  };
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
