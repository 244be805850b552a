// One connection, one exchange at a time, over a raw socket: the cheapest closed-loop client that Node allows. The
// global fetch costs several times the latency that is to be measured.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** No answer by then is an error: without it one lost response would hang the whole run. */
const ANSWER_TIMEOUT_MS = 30_000;
const HEAD_END = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);

/** Tells how many bytes one complete answer has, which may be more than there are yet; 0: not known yet. */
type Framing = (input: Buffer) => number;

/** Writes one message and resolves with the complete answer. */
export class Exchange {
  readonly #socket: Socket;
  readonly #framing: Framing;
  /** Received and not yet looked at together: a large answer is put together once, not with every piece of it. */
  #pieces: Buffer[] = [];
  #received = 0;
  /** Size of the answer that is coming in; 0: not known yet. */
  #expected = 0;
  #settle: ((answer: Buffer) => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(socket: Socket, framing: Framing) {
    this.#socket = socket;
    this.#framing = framing;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('error', (error) => this.#fail?.(error));
    socket.on('close', () => this.#fail?.(new Error('the server closed the connection')));
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => {
      if (this.#fail !== undefined) socket.destroy(new Error(`no answer within ${ANSWER_TIMEOUT_MS} ms`));
    });
  }

  static async open(port: number, framing: Framing): Promise<Exchange> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new Exchange(socket, framing);
  }

  send(message: Uint8Array): Promise<Buffer> {
    assert(this.#settle === undefined, 'one exchange at a time');
    // A closed one tells of its end no more, so its answer would be waited for without end.
    if (this.#socket.destroyed) return Promise.reject(new Error('the server closed the connection'));
    return new Promise((resolve, reject) => {
      this.#settle = resolve;
      this.#fail = reject;
      this.#socket.write(message);
    });
  }

  close(): void {
    this.#fail = undefined;
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#pieces.push(chunk);
    this.#received += chunk.length;
    if (this.#received < this.#expected) return;
    const input = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces, this.#received);
    this.#pieces = [input];
    this.#expected = this.#framing(input);
    if (this.#expected === 0 || this.#received < this.#expected) return;
    const answer = input.subarray(0, this.#expected);
    this.#pieces = answer.length === input.length ? [] : [input.subarray(answer.length)];
    this.#received -= answer.length;
    this.#expected = 0;
    const settle = this.#settle;
    this.#settle = undefined;
    this.#fail = undefined;
    settle?.(answer);
  }
}

/** HTTP/1.1 answers: a head, then Content-Length bytes, chunks, or (204, 304) nothing. */
export function httpFraming(input: Buffer): number {
  const headEnd = input.indexOf(HEAD_END);
  if (headEnd < 0) return 0;
  const bodyStart = headEnd + HEAD_END.length;
  const status = statusOf(input);
  if (status === 204 || status === 304) return bodyStart;
  const head = input.toString('latin1', 0, headEnd);
  const declared = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (declared !== undefined) return bodyStart + Number(declared);
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return bodyStart;
  const last = input.indexOf('0\r\n\r\n', Math.max(bodyStart, input.length - 5), 'latin1');
  return last < 0 ? 0 : last + 5;
}

/** RESP answers that a write gets: a simple string, an error, a number or a bulk string. */
export function respFraming(input: Buffer): number {
  const lineEnd = input.indexOf('\r\n');
  if (lineEnd < 0) return 0;
  if (input[0] !== 0x24 /* $ */) return lineEnd + 2;
  const end = lineEnd + 2 + Number(input.toString('latin1', 1, lineEnd)) + 2;
  return input.length >= end ? end : 0;
}

/** "HTTP/1.1 204 ..." → 204, without a string per answer. */
export function statusOf(answer: Buffer): number {
  return (answer[9]! - 48) * 100 + (answer[10]! - 48) * 10 + (answer[11]! - 48);
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: string;
  readonly body: Buffer;
}

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly contentType?: string | undefined;
  readonly body?: Uint8Array | undefined;
  /** Undefined: the server asks for none. */
  readonly token?: string | undefined;
}

export function httpRequest({ method, path, contentType, body = EMPTY, token }: HttpRequest): Buffer {
  const head = [
    `${method} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ...(contentType === undefined ? [] : [`Content-Type: ${contentType}`]),
    ...(method === 'GET' ? [] : [`Content-Length: ${body.length}`]),
  ];
  return Buffer.concat([Buffer.from([...head, '', ''].join('\r\n')), body]);
}

/** The convenient form, for everything around the measured loop. */
export class HttpExchange {
  readonly #exchange: Exchange;
  readonly #token: string | undefined;

  private constructor(exchange: Exchange, token: string | undefined) {
    this.#exchange = exchange;
    this.#token = token;
  }

  /** `token`: sent with every request. */
  static async open(port: number, token?: string): Promise<HttpExchange> {
    return new HttpExchange(await Exchange.open(port, httpFraming), token);
  }

  async request(method: string, path: string, contentType?: string, body?: Uint8Array): Promise<HttpAnswer> {
    const answer = await this.#exchange.send(httpRequest({ method, path, contentType, body, token: this.#token }));
    const headEnd = answer.indexOf(HEAD_END);
    return {
      status: statusOf(answer),
      headers: answer.toString('latin1', 0, headEnd),
      body: answer.subarray(headEnd + HEAD_END.length),
    };
  }

  close(): void {
    this.#exchange.close();
  }
}

/** XADD of one field, the command compared with our append. */
export function redisAppend(stream: string, payload: Uint8Array): Buffer {
  const words = ['XADD', stream, '*', 'f'].map((word) => `$${word.length}\r\n${word}\r\n`).join('');
  return Buffer.concat([Buffer.from(`*5\r\n${words}$${payload.length}\r\n`), payload, Buffer.from('\r\n')]);
}
