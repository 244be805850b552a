/**
 * The two HTTP listeners of a node: the client plane (streams, buckets, metrics) and the admin plane (operators). Both run
 * on the main thread on uWebSockets.js.
 *
 * Timeouts of uWebSockets.js, as its source has them (20.51 to 20.69), all fixed at 10 s with a granularity of 4 s:
 * - A connection that has sent no request, or none since its last answer, is closed after 10 s.
 * - While a request waits for its answer there is NO timeout: a long-poll may wait for minutes.
 * - While a body is awaited the connection must bring 160 KiB in 10 s or finish, else it is aborted.
 * - A write that the kernel did not take whole starts a 10 s timeout, which progress renews. When such a backlog drains on
 *   a response without onWritable, the 10 s keep running: a quiet event stream would be closed. A live reader that ever
 *   had a backlog therefore registers onWritable (see live/socket.ts).
 * - A second request on a connection whose first waits for its answer (pipelining) closes the connection.
 * HTTP/1.0, absolute-form targets and `*` are answered 505 by the library before any of our code runs.
 */
import { AppendPool } from './append.ts';
import type { HttpContext, HttpSettings } from './contract.ts';
import type { ControlPort } from './control.ts';
import { CorsPolicy } from './cors.ts';
import { clientRoutes } from './client.ts';
import { endAllLive } from './live/live.ts';
import { listenError } from './listen-error.ts';
import type { MetricsSource } from './metrics-route.ts';
import { serve } from './dispatch.ts';
import { Door } from './door.ts';
import { AdminGate, ClientGate } from './gate.ts';
import { BodyBudget, Plane } from './plane.ts';
import { type Operations, adminRoutes, clientService } from './service.ts';
import { unsentOf } from './unsent.ts';
import { type Uws, type UwsApp, type UwsListenSocket, loadUws } from './uws.ts';

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
}

export function createPlanes(options: PlaneOptions): Planes {
  const { ctx, source, operations, control } = options;
  const uws = loadUws();
  const budget = new BodyBudget(ctx.settings.inflightBodyBytes);
  const client = new Plane(ctx, budget);
  const admin = new Plane(ctx, budget);
  const clientListener = new Listener(uws, 'client', ctx.settings.tls);
  const adminListener = new Listener(uws, 'admin', ctx.settings.tls);
  const cors = new CorsPolicy(ctx.settings.corsOrigins);
  // Browsers have no business on the admin plane: no origin is allowed there.
  const noCors = new CorsPolicy([]);
  const { clientToken, adminToken, clientHosts, adminHosts } = ctx.settings;
  serve(clientListener.app, {
    plane: client,
    cors,
    door: new Door(new ClientGate({ hosts: clientHosts, cors, hasToken: clientToken !== '' }), clientToken),
    route: clientRoutes(client, new AppendPool(), source, clientService(operations), control),
  });
  serve(adminListener.app, {
    plane: admin,
    cors: noCors,
    door: new Door(new AdminGate(adminHosts), adminToken),
    route: adminRoutes(admin, source, operations),
  });
  return {
    listenClient: (host, port) => clientListener.listen(host, port),
    listenAdmin: (host, port) => adminListener.listen(host, port),
    openRequests: () => client.open + admin.open,
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

/** The overload with host and options exists in both builds, but only the newer one's types know it. */
type ListenWithHost = (
  host: string,
  port: number,
  options: number,
  callback: (socket: UwsListenSocket | false) => void,
) => void;

/** LIBUS_LISTEN_EXCLUSIVE_PORT: without it a second process shares the port silently. */
const EXCLUSIVE_PORT = 1;

class Listener {
  readonly app: UwsApp;
  readonly #uws: Uws;
  readonly #name: string;
  #socket: UwsListenSocket | undefined;
  #closed = false;

  constructor(uws: Uws, name: string, tls: HttpSettings['tls']) {
    this.#uws = uws;
    this.#name = name;
    this.app = tls === undefined ? uws.App() : uws.SSLApp({ cert_file_name: tls.certPath, key_file_name: tls.keyPath });
  }

  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      const listen = this.app.listen.bind(this.app) as unknown as ListenWithHost;
      listen(host, port, EXCLUSIVE_PORT, (socket) => {
        if (socket === false) {
          void listenError(this.#name, host, port).then(reject);
          return;
        }
        this.#socket = socket;
        resolve(this.#uws.us_socket_local_port(socket));
      });
    });
  }

  stopListening(): void {
    if (this.#socket === undefined) return;
    this.#uws.us_listen_socket_close(this.#socket);
    this.#socket = undefined;
  }

  closeConnections(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.app.close();
  }
}
