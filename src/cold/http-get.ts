/**
 * GET over plain HTTP/1.1, whose body goes straight where the caller wants it. Node's own client copies every 64 KiB into memory
 * that lives for a moment; V8 counts it and marks its whole heap (that of the SDK, 60 MB) after some 30 MiB of answers. Here
 * all connections of a thread read into one buffer.
 */
import { Buffer } from 'node:buffer';
import { type Socket, connect } from 'node:net';
import { HttpResponse } from './http-response.ts';

/** A read is taken from the kernel and used up in one go, so one buffer serves all. */
const READ_BYTES = 256 * 1024;
/** Of an answer that is an error. */
const ERROR_BYTES_MAX = 64 * 1024;
const buffer = Buffer.allocUnsafeSlow(READ_BYTES);

export interface GetRequest {
  readonly hostname: string;
  readonly port: number;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface GetAnswer {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  /** Of an answer that is no success; else empty. */
  readonly body: Uint8Array;
}

interface Exchange {
  readonly response: HttpResponse;
  readonly body: Buffer[];
  resolve(answer: GetAnswer): void;
  reject(error: Error): void;
}

/** As Node's own errors: the code tells the SDK that a repeat may help. */
function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

class Connection {
  readonly place: string;
  readonly #socket: Socket;
  #exchange: Exchange | undefined;
  /** No byte of an answer came yet to the request under way. */
  isSilent = true;
  isClosed = false;
  /** Told when it waits for its next use, and when it is gone. */
  onIdle: (() => void) | undefined;
  onClosed: (() => void) | undefined;

  constructor(place: string, host: string, port: number, connectMs: number) {
    this.place = place;
    const callback = (bytes: number): boolean => {
      this.#receive(buffer.subarray(0, bytes));
      return true;
    };
    const socket = connect({ host, port, noDelay: true, keepAlive: true, onread: { buffer, callback } });
    this.#socket = socket;
    socket.setTimeout(connectMs, () =>
      socket.destroy(failure('ETIMEDOUT', `${place}: no connection within ${connectMs} ms`)),
    );
    socket.once('connect', () => socket.setTimeout(0));
    socket.on('error', (error) => this.#fail(error));
    socket.on('end', () => {
      this.#exchange?.response.close();
      this.#settle();
    });
    socket.on('close', () => {
      this.isClosed = true;
      this.#fail(failure('ECONNRESET', `${place}: the connection was closed`));
      this.onClosed?.();
    });
  }

  get(text: string, take: (bytes: Uint8Array) => void, signal: AbortSignal): Promise<GetAnswer> {
    this.isSilent = true;
    this.#socket.ref();
    const body: Buffer[] = [];
    let bodyBytes = 0;
    const response = new HttpResponse((bytes, status) => {
      if (status >= 200 && status < 300) return take(bytes);
      bodyBytes += bytes.length;
      if (bodyBytes <= ERROR_BYTES_MAX) body.push(Buffer.from(bytes));
    });
    return new Promise((resolve, reject) => {
      const abort = (): void => this.#abandon(signal.reason);
      const over = <T>(settle: (value: T) => void) => {
        return (value: T): void => {
          signal.removeEventListener('abort', abort);
          settle(value);
        };
      };
      this.#exchange = { response, body, resolve: over(resolve), reject: over(reject) };
      signal.addEventListener('abort', abort);
      this.#socket.write(text, 'latin1');
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(bytes: Uint8Array): void {
    this.isSilent = false;
    const exchange = this.#exchange;
    // Between two requests nothing is expected.
    if (exchange === undefined) return this.close();
    try {
      exchange.response.feed(bytes);
    } catch (error) {
      this.#abandon(error);
      return;
    }
    this.#settle();
  }

  #settle(): void {
    const exchange = this.#exchange;
    if (exchange?.response.isDone !== true) return;
    this.#exchange = undefined;
    const { response, body } = exchange;
    if (response.isReusable && !this.isClosed) {
      this.#socket.unref();
      this.onIdle?.();
    } else {
      this.close();
    }
    exchange.resolve({ statusCode: response.statusCode, headers: response.headers, body: Buffer.concat(body) });
  }

  #abandon(reason: unknown): void {
    this.#fail(reason instanceof Error ? reason : new Error(String(reason)));
    this.close();
  }

  #fail(error: Error): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    exchange?.reject(error);
  }
}

export class HttpGets {
  readonly #connectMs: number;
  readonly #open = new Set<Connection>();
  #idle: Connection[] = [];

  constructor(connectMs: number) {
    this.#connectMs = connectMs;
  }

  /** `take` is told of a success's bytes, from the first one again when `restart` was called. */
  async get(
    request: GetRequest,
    take: (bytes: Uint8Array) => void,
    restart: () => void,
    signal: AbortSignal,
  ): Promise<GetAnswer> {
    const { hostname, port, path, headers } = request;
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const text = `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
    if (/[\r\n]/.test(path) || lines.some((line) => /[\r\n]/.test(line.slice(0, -2))))
      throw new Error('a header has a line break');
    for (;;) {
      signal.throwIfAborted();
      const used = this.#idleAt(`${hostname}:${port}`);
      const connection = used ?? this.#connect(hostname, port);
      restart();
      try {
        return await connection.get(text, take, signal);
      } catch (error) {
        // The server closed it while it was idle. Each such connection is tried once; then a new one is made.
        if (used === undefined || !connection.isSilent || signal.aborted) throw error;
      }
    }
  }

  close(): void {
    for (const connection of this.#open) connection.close();
  }

  #idleAt(place: string): Connection | undefined {
    const found = this.#idle.findLast((connection) => connection.place === place && !connection.isClosed);
    this.#idle = this.#idle.filter((connection) => connection !== found && !connection.isClosed);
    return found;
  }

  #connect(hostname: string, port: number): Connection {
    const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
    const connection = new Connection(`${hostname}:${port}`, host, port, this.#connectMs);
    this.#open.add(connection);
    connection.onIdle = () => this.#idle.push(connection);
    connection.onClosed = () => this.#open.delete(connection);
    return connection;
  }
}
