/**
 * HTTP to one node: for what sessions do not have, and for everything where no WebSocket can be opened. It is given up
 * after a while, so that a session is tried again.
 */
import { type NodeChannel, isClosed } from './channel.ts';
import { ConnectionLost, StreamError, clientError, refusalOf, wholeNumber } from './error.ts';
import type { Leaders } from './leaders.ts';
import type { SendingBounds } from './producer.ts';
import { type EndSignal, EndSource, backoffMs, raced, sleep } from './waiting.ts';
import {
  KIND,
  MESSAGE_BYTES_MAX,
  type StreamPath,
  type WireAnswer,
  type WireOptions,
  type WireRequest,
  joinBytes,
  optionsBehind,
} from './wire.ts';

const LEASE_MS = 60_000;
/** Beside the time that bodies take. */
const ANSWER_MS_MAX = 40_000;
/** Nodes wait for a body that comes so fast. */
const BODY_BYTES_PER_SECOND = 16 * 1024;
/** A node that is gone without a word gives way to the next one. */
const PROBE_MS_MAX = 5000;
const POLL_MS = 20_000;
/** An empty poll that came at once is not repeated at once: this many doublings of the shortest delay. */
const POLL_BACKOFF = 2;
const SENTENCE_CHARS_MAX = 1000;
const METHODS: ReadonlyMap<number, string> = new Map([
  [KIND.create, 'PUT'],
  [KIND.append, 'POST'],
  [KIND.head, 'HEAD'],
  [KIND.delete, 'DELETE'],
]);
/** Answers of a proxy whose node does not answer. */
const GATEWAY: ReadonlySet<number> = new Set([502, 503, 504]);

interface HttpQuestion {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
}

export class HttpChannel implements NodeChannel {
  readonly url: string;
  readonly bounds: SendingBounds = { batches: 1, bytes: Number.POSITIVE_INFINITY };
  hasAnswered = false;
  readonly isSilent = false;
  /** HTTP does not tell. */
  readonly leaders: Leaders = [];
  readonly #authorization: Readonly<Record<string, string>>;
  #untilMs = performance.now() + LEASE_MS;
  readonly #closed = new EndSource();

  constructor(url: string, token: string | undefined) {
    this.url = url;
    this.#authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  get isOpen(): boolean {
    return !this.#closed.aborted && performance.now() < this.#untilMs;
  }

  /** Resolves when the node takes requests of this client; one that asks for a WebSocket does. */
  async probe(signals: readonly EndSignal[]): Promise<void> {
    const answered = this.#fetch({ method: 'GET', path: '/__svc/session' }, signals, PROBE_MS_MAX);
    const error: unknown = await answered.then(
      () => new ConnectionLost('this is no node'),
      (reason: unknown) => reason,
    );
    if (!(error instanceof StreamError && (error.status === 426 || error.status === 404))) throw error;
  }

  async ask(request: WireRequest, signals: readonly EndSignal[] = []): Promise<WireAnswer> {
    return await this.#fetch(questionOf(request), signals);
  }

  async *follow(
    path: StreamPath,
    options: WireOptions,
    signals: readonly EndSignal[],
  ): AsyncGenerator<WireAnswer, void> {
    let position = options;
    let isLive = 'wait' in options;
    let hasBegun = false;
    // Behind its lease the follower goes on in a session, if there is one by now.
    while (this.isOpen) {
      const live = isLive ? { live: 'long-poll', timeout_ms: POLL_MS } : {};
      const query = queryOf({ ...position, ...live });
      const answer = await this.#poll({ method: 'GET', path: `${pathOf(path)}?${query}` }, isLive, signals);
      if (answer === undefined) continue;
      position = optionsBehind(position, answer);
      const isEmpty = answer.body.length === 0;
      if (!isEmpty || !hasBegun || isClosed(answer)) yield answer;
      if (isClosed(answer)) return;
      if (isEmpty && isLive && hasBegun) await sleep(backoffMs(POLL_BACKOFF), signals);
      isLive = isEmpty || answer.fields.get('stream-up-to-date') === 'true';
      hasBegun = true;
    }
  }

  close(): void {
    this.#closed.abort(new ConnectionLost('the client closed the connection'));
  }

  /** Undefined: the stream that it waits for is not there yet. */
  async #poll(question: HttpQuestion, isLive: boolean, signals: readonly EndSignal[]): Promise<WireAnswer | undefined> {
    try {
      const answer = await this.#fetch(question, signals);
      const isNothing =
        /^application\/json\b/i.test(answer.fields.get('content-type') ?? '') && answer.body.length === 2;
      return isNothing ? { ...answer, body: answer.body.subarray(2) } : answer;
    } catch (error) {
      const isAwaited = isLive && question.path.includes('wait=create');
      if (!isAwaited || !(error instanceof StreamError) || error.code !== 'STREAM_NOT_FOUND') throw error;
      await sleep(backoffMs(POLL_BACKOFF), signals);
      return undefined;
    }
  }

  async #fetch(question: HttpQuestion, signals: readonly EndSignal[], mostMs = ANSWER_MS_MAX): Promise<WireAnswer> {
    const end = new Deadline(mostMs);
    end.moved(question.body?.length ?? 0);
    try {
      return await raced(this.#exchange(question, end), [...signals, this.#closed]);
    } finally {
      end.stop();
    }
  }

  async #exchange({ method, path, headers, body }: HttpQuestion, end: Deadline): Promise<WireAnswer> {
    let response: Response;
    let bytes: Uint8Array;
    try {
      const init = { method, headers: { ...this.#authorization, ...headers }, signal: end.signal };
      response = await fetch(this.url + path, body === undefined ? init : { ...init, body });
      bytes = await bodyOf(response, end);
    } catch (error) {
      // A caller that leaves says nothing about the node, which others still ask.
      if (error instanceof StreamError || end.isStopped) throw error;
      return this.#lose(`${this.url} does not answer: ${String(error)}`);
    }
    const fields = new Map(response.headers);
    const code = fields.get('millrace-error');
    if (code === undefined && GATEWAY.has(response.status)) return this.#lose(`a proxy says ${response.status}`);
    this.hasAnswered = true;
    // Requests under way are still answered.
    if (code === 'STOPPING') this.#untilMs = 0;
    if (!response.ok) {
      const { status } = response;
      const told = new TextDecoder().decode(bytes).slice(0, SENTENCE_CHARS_MAX).trim();
      // Answers to HEAD have no body.
      const sentence =
        told === '' ? `${method} ${path.slice(0, SENTENCE_CHARS_MAX)}: ${status} ${code ?? ''}`.trim() : told;
      throw refusalOf({ status, code: code ?? 'NO_NODE', sentence, fields });
    }
    if (!isOfNode(response)) return this.#lose(`what answers at ${this.url} is no node`);
    if (response.status === 201) fields.set('stream-created', 'true');
    return { next: wholeNumber(fields.get('stream-next-offset')), fields, body: bytes };
  }

  #lose(reason: string): never {
    const lost = new ConnectionLost(reason);
    this.#closed.abort(lost);
    throw lost;
  }
}

/** The end of an exchange that takes too long, later by the time that its bodies may take. */
class Deadline {
  readonly #abort = new AbortController();
  isStopped = false;
  #atMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(mostMs: number) {
    this.#atMs = performance.now() + mostMs;
    this.moved(0);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  moved(bytes: number): void {
    this.#atMs += (bytes * 1000) / BODY_BYTES_PER_SECOND;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(), this.#atMs - performance.now());
  }

  /** Over, whether it has come to its end or not. */
  stop(): void {
    this.isStopped = true;
    clearTimeout(this.#timer);
    this.#abort.abort();
  }
}

/** A proxy may answer with a page of its own, and 200. Of the answers of a node only attributes have no such header. */
function isOfNode({ status, url, headers }: Response): boolean {
  if (status === 204) return true;
  const isAttributes = url.endsWith('/attrs') && headers.get('content-type') === 'application/json';
  return isAttributes || [...headers.keys()].some((name) => name.startsWith('stream-'));
}

export function pathOf({ bucket, stream }: StreamPath): string {
  return `/${encodeURIComponent(bucket)}/${encodeURIComponent(stream)}`;
}

function queryOf(options: WireOptions): string {
  return Object.entries(options)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&');
}

function questionOf({ kind, body, options = {}, route, ...path }: WireRequest): HttpQuestion {
  const headers = Object.fromEntries(Object.entries(options).map(([name, value]) => [name, String(value)]));
  const base = pathOf(path);
  const bytes = body === undefined ? {} : { body: body instanceof Uint8Array ? joinBytes([body]) : batchOf(body) };
  if (route !== undefined) return { method: route.method, path: base + route.suffix, headers, ...bytes };
  if (kind === KIND.attributes) {
    return { method: body === undefined ? 'GET' : 'PUT', path: `${base}/attrs`, headers: JSON_TYPE, ...bytes };
  }
  const isBatch = kind === KIND.append && Array.isArray(body);
  return { method: METHODS.get(kind) ?? 'GET', path: isBatch ? `${base}/append-batch` : base, headers, ...bytes };
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** Frames of four bytes of length and the bytes. */
function batchOf(messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return joinBytes(
    messages.flatMap((message) => {
      const head = new Uint8Array(4);
      new DataView(head.buffer).setUint32(0, message.length);
      return [head, message];
    }),
  );
}

async function bodyOf({ body }: Response, end: Deadline): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  for (;;) {
    const piece: { readonly done: boolean; readonly value?: Uint8Array | undefined } = (await reader?.read()) ?? {
      done: true,
    };
    if (piece.done || piece.value === undefined) return joinBytes(pieces);
    size += piece.value.length;
    end.moved(piece.value.length);
    if (size > MESSAGE_BYTES_MAX)
      throw clientError('BAD_ANSWER', `the answer has more than ${MESSAGE_BYTES_MAX} bytes`);
    pieces.push(piece.value);
  }
}
