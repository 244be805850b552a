/**
 * One plane's socket. A certificate is renewed by a second app of the library that listens in the place of
 * the first: the library has no call that changes the certificate of an app, but for clients that name the
 * host (SNI), and many come by address. Connections stay with the app, and the certificate, that they
 * began with. Between the two listeners no port is open, for the microseconds of two system calls; a
 * client that comes just then is refused and has to try again.
 */
import { createServer } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { formatAddress } from '../base/address.ts';
import { readAuthorities } from '../access/client-certificates.ts';
import type { PlaneConnections } from '../access/connections.ts';
import type { HttpSettings } from './context.ts';
import type { ErrorLog } from '../ports.ts';
import { watchConnections } from './guard.ts';
import type { Uws, UwsApp, UwsListenSocket } from './uws.ts';

/** The overload with host and options exists in both builds, but only the newer one's types know it. */
type ListenWithHost = (
  host: string,
  port: number,
  options: number,
  callback: (socket: UwsListenSocket | false) => void,
) => void;

/** LIBUS_LISTEN_EXCLUSIVE_PORT: without it a second process shares the port silently. */
const EXCLUSIVE_PORT = 1;

type Tls = HttpSettings['tls'];

export interface ListenerOptions {
  readonly uws: Uws;
  readonly name: 'client' | 'admin';
  readonly tls: Tls;
  /** Registers the routes with an app. */
  readonly install: (app: UwsApp) => void;
  readonly connections: PlaneConnections;
  readonly log: ErrorLog;
}

export class Listener {
  readonly #options: ListenerOptions;
  /** The last one listens; those before it have the connections that came while they did. */
  readonly #apps: UwsApp[] = [];
  #socket: UwsListenSocket | undefined;
  #address: { readonly host: string; readonly port: number } | undefined;
  #closed = false;
  #authorities: string | undefined;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#authorities = readAuthorities(this.#caPathOf(options.tls));
    this.#apps.push(this.#make(options.tls));
  }

  async listen(host: string, port: number): Promise<number> {
    const taken = this.#open(host, port);
    if (taken === undefined) throw await listenError(this.#options.name, host, port);
    return taken;
  }

  /** New connections get the certificate of these files. Throws when that cannot be; the one before stays then. */
  renew(tls: NonNullable<Tls>): void {
    if (this.#closed || this.#socket === undefined || this.#address === undefined) return;
    const { host, port } = this.#address;
    this.#apps.push(this.#make(tls));
    this.stopListening();
    if (this.#open(host, port) !== undefined) return this.#endStrangers(tls);
    this.#apps.pop();
    const failure = `the ${this.#options.name} plane could not listen again with the new certificate`;
    if (this.#open(host, port) === undefined) throw new Error(`${failure}, nor with the old one: restart this node`);
    throw new Error(failure);
  }

  /** Connections that began with other authorities end. */
  #endStrangers(tls: Tls): void {
    const before = this.#authorities;
    this.#authorities = readAuthorities(this.#caPathOf(tls));
    if (this.#authorities !== before) for (const app of this.#apps.splice(0, this.#apps.length - 1)) app.close();
  }

  #caPathOf(tls: Tls): string | undefined {
    return this.#options.name === 'admin' ? tls?.adminCaPath : undefined;
  }

  stopListening(): void {
    if (this.#socket === undefined) return;
    this.#options.uws.us_listen_socket_close(this.#socket);
    this.#socket = undefined;
  }

  closeConnections(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const app of this.#apps) app.close();
  }

  #make(tls: Tls): UwsApp {
    const { uws, install, connections, log } = this.#options;
    const caPath = this.#caPathOf(tls);
    // With `ca_file_name` the library checks the certificates of clients, and does not require them.
    const ca = caPath === undefined ? {} : { ca_file_name: resolvePath(caPath) };
    const app =
      tls === undefined
        ? uws.App()
        : uws.SSLApp({ cert_file_name: resolvePath(tls.certPath), key_file_name: resolvePath(tls.keyPath), ...ca });
    install(app);
    watchConnections(app, log, (res, by) => connections.changed(res, by));
    return app;
  }

  /** The port; undefined when it cannot be had. The library calls back before it returns. */
  #open(host: string, port: number): number | undefined {
    const app = this.#apps.at(-1);
    if (app === undefined) return undefined;
    const listen = app.listen.bind(app) as unknown as ListenWithHost;
    listen(host, port, EXCLUSIVE_PORT, (socket) => {
      this.#socket = socket === false ? undefined : socket;
    });
    if (this.#socket === undefined) return undefined;
    const taken = this.#options.uws.us_socket_local_port(this.#socket);
    this.#address = { host, port: taken };
    this.#options.connections.port = taken;
    return taken;
  }
}

/** Linux: below it a port is privileged (`net.ipv4.ip_unprivileged_port_start`, unless that was changed). */
const FIRST_FREE_PORT = 1024;

export class ListenError extends Error {
  override readonly name = 'ListenError';

  constructor(plane: string, address: string, reason: string) {
    super(`cannot listen on ${address} for the ${plane} plane: ${reason}`);
  }
}

/** The error for an address on which listening has just failed. The library does not say why: the system is asked. */
export async function listenError(plane: string, host: string, port: number): Promise<ListenError> {
  const code = await new Promise<string | undefined>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
  return new ListenError(plane, formatAddress({ host, port }), reasonOf(code, port));
}

function reasonOf(code: string | undefined, port: number): string {
  switch (code) {
    case 'EADDRINUSE':
      return 'the port is in use by another process';
    case 'EADDRNOTAVAIL':
      return 'the address does not belong to this host';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'the name is not known here; give an address';
    case 'EACCES':
      return port < FIRST_FREE_PORT
        ? `ports below ${FIRST_FREE_PORT} need a privilege (CAP_NET_BIND_SERVICE: AmbientCapabilities= in the unit file); take a higher one, or put a proxy in front`
        : 'this user may not use the port';
    case undefined:
      // It was taken a moment ago and is free now.
      return 'the port was in use by another process';
    default:
      return `the system says ${code}`;
  }
}
