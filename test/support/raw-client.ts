// A minimal HTTP/1.1 client over one socket: keep-alive, pipelining, and raw bytes when a test wants to misbehave.
// It exists because fetch hides what these tests are about: connection order, half-sent requests, exact response bytes.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';

export interface RawResponse {
  readonly status: number;
  /** Names in lower case; values of a repeated header are joined with ", ". */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export type HeaderList = Readonly<Record<string, string | number>>;

/** The connection ended before the answer was complete: the outcome of the request is unknown. */
export class ConnectionLost extends Error {
  constructor(reason: string) {
    super(`connection lost: ${reason}`);
    this.name = 'ConnectionLost';
  }
}

interface Waiting {
  readonly withoutBody: boolean;
  resolve(response: RawResponse): void;
  reject(error: Error): void;
}

interface Head {
  readonly status: number;
  readonly headers: Map<string, string>;
  /** Bytes of the head with its blank line. */
  readonly length: number;
}

const BLANK_LINE = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');
const EMPTY: Buffer = Buffer.alloc(0);

export class RawClient {
  readonly socket: Socket;
  /** Resolves when the socket is closed, by either side. */
  readonly closed: Promise<void>;
  /** Bytes that have come and were not taken yet. */
  #buffer: Buffer = EMPTY;
  /** Has room behind what has come, so that a large answer is not copied with each of its pieces. */
  #memory: Buffer = EMPTY;
  /** Where the buffer ends in that memory. */
  #end = 0;
  #waiting: Waiting[] = [];
  #lost: ConnectionLost | undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    let failure = 'closed by the server';
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error) => (failure = error.message));
    this.closed = new Promise((resolve) => {
      socket.once('close', () => {
        this.#fail(failure);
        resolve();
      });
    });
  }

  /** `from`: an address of this host; undefined: any. */
  static connect(port: number, host = '127.0.0.1', from?: string): Promise<RawClient> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host, ...(from === undefined ? {} : { localAddress: from }) });
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new RawClient(socket));
      });
    });
  }

  get isOpen(): boolean {
    return this.#lost === undefined;
  }

  /** Sends one request. May be called again before the answer is there: answers come in order. */
  request(method: string, path: string, headers: HeaderList = {}, body: string | Buffer = EMPTY): Promise<RawResponse> {
    const payload = typeof body === 'string' ? Buffer.from(body) : body;
    let head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n`;
    for (const [name, value] of Object.entries(headers)) head += `${name}: ${value}\r\n`;
    if (payload.length > 0 || method === 'POST' || method === 'PUT') head += `Content-Length: ${payload.length}\r\n`;
    head += '\r\n';
    const bytes =
      payload.length === 0 ? Buffer.from(head, 'latin1') : Buffer.concat([Buffer.from(head, 'latin1'), payload]);
    return this.send(bytes, method === 'HEAD');
  }

  /** Sends bytes that the caller wrote himself and waits for one answer to them. */
  send(bytes: Buffer, withoutBody = false): Promise<RawResponse> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ withoutBody, resolve, reject });
      this.socket.write(bytes);
    });
  }

  destroy(): void {
    this.socket.destroy();
  }

  #receive(chunk: Buffer): void {
    if (this.#buffer.length === 0) this.#buffer = chunk;
    else this.#append(chunk);
    for (;;) {
      const waiting = this.#waiting[0];
      if (waiting === undefined) return;
      const parsed = parseResponse(this.#buffer, waiting.withoutBody);
      if (parsed === undefined) return;
      this.#buffer = this.#buffer.subarray(parsed.length);
      // Others announce the answer; this one is it.
      if (parsed.response.status < 200 && parsed.response.status !== 101) continue;
      this.#waiting.shift();
      waiting.resolve(parsed.response);
    }
  }

  #append(chunk: Buffer): void {
    const { length } = this.#buffer;
    const isInside = this.#buffer.buffer === this.#memory.buffer;
    if (!isInside || this.#end + chunk.length > this.#memory.length) {
      this.#memory = Buffer.allocUnsafeSlow(2 * (length + chunk.length));
      this.#buffer.copy(this.#memory);
      this.#end = length;
    }
    chunk.copy(this.#memory, this.#end);
    this.#end += chunk.length;
    this.#buffer = this.#memory.subarray(this.#end - length - chunk.length, this.#end);
  }

  #fail(reason: string): void {
    const lost = new ConnectionLost(reason);
    this.#lost = lost;
    const last = this.#waiting[0] === undefined ? undefined : parseUntilClose(this.#buffer);
    if (last !== undefined) this.#waiting.shift()?.resolve(last);
    for (const waiting of this.#waiting.splice(0)) waiting.reject(lost);
  }
}

/** One request on its own connection. */
export async function requestOnce(
  port: number,
  method: string,
  path: string,
  headers: HeaderList = {},
  body: string | Buffer = EMPTY,
): Promise<RawResponse> {
  const client = await RawClient.connect(port);
  try {
    return await client.request(method, path, headers, body);
  } finally {
    client.destroy();
  }
}

function parseHead(buffer: Buffer): Head | undefined {
  const end = buffer.indexOf(BLANK_LINE);
  if (end < 0) return undefined;
  const [statusLine, ...lines] = buffer.subarray(0, end).toString('latin1').split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine ?? '')?.[1]);
  assert(status >= 100, `not an HTTP answer: ${JSON.stringify(statusLine)}`);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    assert(colon > 0, `not a header line: ${JSON.stringify(line)}`);
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { status, headers, length: end + BLANK_LINE.length };
}

/** The first answer in `buffer` and how many bytes it took; undefined while it is incomplete. */
export function parseResponse(
  buffer: Buffer,
  withoutBody: boolean,
): { response: RawResponse; length: number } | undefined {
  const head = parseHead(buffer);
  if (head === undefined) return undefined;
  const { status, headers } = head;
  const done = (body: Buffer, length: number): { response: RawResponse; length: number } => ({
    response: { status, headers, body },
    length,
  });
  if (withoutBody || status < 200 || status === 204 || status === 304) return done(EMPTY, head.length);
  if (headers.get('transfer-encoding')?.toLowerCase() === 'chunked') {
    const chunks = parseChunks(buffer, head.length);
    return chunks === undefined ? undefined : done(chunks.body, chunks.end);
  }
  const declared = headers.get('content-length');
  if (declared === undefined) return undefined;
  const end = head.length + Number(declared);
  return buffer.length < end ? undefined : done(Buffer.from(buffer.subarray(head.length, end)), end);
}

/** An answer without length ends with the connection. */
function parseUntilClose(buffer: Buffer): RawResponse | undefined {
  const head = parseHead(buffer);
  if (head === undefined || head.headers.has('content-length') || head.headers.has('transfer-encoding'))
    return undefined;
  return { status: head.status, headers: head.headers, body: Buffer.from(buffer.subarray(head.length)) };
}

function parseChunks(buffer: Buffer, start: number): { body: Buffer; end: number } | undefined {
  const parts: Buffer[] = [];
  let at = start;
  for (;;) {
    const lineEnd = buffer.indexOf(LINE_END, at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(buffer.subarray(at, lineEnd).toString('latin1'), 16);
    assert(Number.isSafeInteger(size), 'the size of a chunk is not a number');
    const from = lineEnd + LINE_END.length;
    if (buffer.length < from + size + LINE_END.length) return undefined;
    at = from + size + LINE_END.length;
    if (size === 0) return { body: Buffer.concat(parts), end: at };
    parts.push(buffer.subarray(from, from + size));
  }
}
