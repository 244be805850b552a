/**
 * The HTTP routes of the cluster plane, on the same port as the peer links: the listener hands over a connection whose
 * first bytes are a request. Nothing else is reachable here.
 *
 *   GET  /__svc/leadership-shed   whether this node wants to lead
 *   POST /__svc/cluster-probe     accepts up to 32 MiB and discards them: peers see that large messages get through
 *   POST /__svc/cold-probe        200 when this node reaches the cold store now, 503 when it does not
 *
 * No route authenticates, so each must be cheap: bodies are never kept, and beyond httpConnectionsMax the connection
 * with the oldest finished request is closed. Peers ask often, so it is not one of theirs.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import process from 'node:process';
import { TLSSocket } from 'node:tls';
import { BODY_BYTES_MAX } from '../base/limits.ts';
import type { Runtime } from '../base/runtime.ts';
import type { PeerLimits } from './limits.ts';
import type { LogLimiter } from './log-limiter.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'].map((name) => `${name} `);
const HEAD_BYTES_MAX = 16 * 1024;

/** Whether a connection that begins so is HTTP; `unsure`: too few bytes to tell. No handshake begins like a request. */
export function looksLikeHttp(bytes: Uint8Array): boolean | 'unsure' {
  const begin = String.fromCharCode(...bytes.subarray(0, 8));
  if (METHODS.some((method) => begin.startsWith(method))) return true;
  return METHODS.some((method) => method.startsWith(begin)) ? 'unsure' : false;
}

export interface ClusterHttpOptions {
  readonly limits: PeerLimits;
  readonly runtime: Runtime;
  readonly log: LogLimiter;
  /** The body of GET /__svc/leadership-shed. */
  readonly shed: () => string;
  /** Whether this node reaches the cold store; undefined: it has none. */
  readonly coldProbe: (() => Promise<boolean>) | undefined;
}

export class ClusterHttp {
  requests = 0;
  readonly #options: ClusterHttpOptions;
  /** Timer cancellation by connection, ordered by their last finished request. */
  readonly #connections = new Map<Socket, () => void>();
  #server: Server | undefined;

  constructor(options: ClusterHttpOptions) {
    this.#options = options;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Takes over a connection without listeners, and the bytes already received. */
  take(socket: Socket, bytes: Uint8Array): void {
    const [longestIdle] = this.#connections.keys();
    if (this.#connections.size >= this.#options.limits.httpConnectionsMax) {
      this.#end(longestIdle as Socket, 'too many HTTP connections at a time');
    }
    socket.on('close', () => this.#forget(socket));
    this.#keep(socket);
    this.#server ??= this.#makeServer();
    // Returns the bytes already read, for the server to find. It listens once this call is over.
    socket.pause();
    socket.unshift(bytes);
    this.#server.emit('connection', socket);
    process.nextTick(() => socket.resume());
  }

  /** Only TLS is taken from now on. */
  endPlain(): void {
    for (const socket of [...this.#connections.keys()])
      if (!(socket instanceof TLSSocket)) this.#end(socket, 'cluster.tls was changed to "require"');
  }

  stop(): void {
    for (const socket of [...this.#connections.keys()]) this.#end(socket);
  }

  #makeServer(): Server {
    // Its own timeouts begin with listen(), which is never called; the timer of #keep covers header, body and idle
    // time.
    const server = createServer({ maxHeaderSize: HEAD_BYTES_MAX, keepAliveTimeout: 0 }, (req, res) =>
      this.#handle(req, res),
    );
    server.on('clientError', (error: Error, stream) => {
      const socket = stream as Socket;
      // Sends what fits into the kernel's buffer, but does not wait for a client that does not read.
      if (socket.writable) socket.write('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      this.#end(socket, error.message);
    });
    return server;
  }

  /** Restarts the time limit for finishing a request. */
  #keep(socket: Socket): void {
    this.#forget(socket);
    const { runtime, limits } = this.#options;
    const cancel = runtime.setTimer(limits.httpIdleMs, () => this.#end(socket, 'no request in time'));
    this.#connections.set(socket, cancel);
  }

  #forget(socket: Socket): void {
    this.#connections.get(socket)?.();
    this.#connections.delete(socket);
  }

  /** Closes it; logs one line when there is a reason. */
  #end(socket: Socket, reason?: string): void {
    const address = socket.remoteAddress ?? 'unknown';
    if (reason !== undefined) this.#options.log.warn(address, 'cluster-plane request refused', { address, reason });
    this.#forget(socket);
    if (socket.writableLength === 0) socket.destroySoon();
    else socket.destroy();
  }

  #handle(req: IncomingMessage, res: ServerResponse): void {
    this.requests++;
    res.on('finish', () => {
      if (this.#connections.has(req.socket)) this.#keep(req.socket);
    });
    const path = (req.url ?? '').split('?', 1)[0];
    if (path === '/__svc/leadership-shed') {
      if (req.method === 'GET' || req.method === 'HEAD') this.#shed(res);
      else refuse(res, 405, { allow: 'GET, HEAD' });
    } else if (path === '/__svc/cluster-probe') {
      if (req.method === 'POST') probe(req, res);
      else refuse(res, 405, { allow: 'POST' });
    } else if (path === '/__svc/cold-probe' && this.#options.coldProbe !== undefined) {
      if (req.method === 'POST') this.#coldProbe(req, res, this.#options.coldProbe);
      else refuse(res, 405, { allow: 'POST' });
    } else {
      refuse(res, 404);
    }
  }

  #coldProbe(req: IncomingMessage, res: ServerResponse, ask: () => Promise<boolean>): void {
    req.resume();
    // It does not reject. A client that left meanwhile gets no answer.
    void ask().then((reaches) => res.writeHead(reaches ? 200 : 503, { 'content-length': 0 }).end());
  }

  #shed(res: ServerResponse): void {
    const body = Buffer.from(this.#options.shed());
    res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
  }
}

function probe(req: IncomingMessage, res: ServerResponse): void {
  if (Number(req.headers['content-length'] ?? 0) > BODY_BYTES_MAX) return refuse(res, 413);
  let bytes = 0;
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX && !res.headersSent) refuse(res, 413);
  });
  req.on('end', () => {
    if (!res.headersSent) res.writeHead(200, { 'content-length': 0 }).end();
  });
}

/** Does not wait for the rest of the body. */
function refuse(res: ServerResponse, status: number, headers: Readonly<Record<string, string>> = {}): void {
  res.writeHead(status, { ...headers, 'content-length': 0, connection: 'close' }).end();
}
