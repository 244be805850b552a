/**
 * Requests to the client planes of a cluster. Any node takes any request, so the next one is asked when one does not
 * answer; a request is sent again only if it may take effect twice, or certainly has not.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Failure, Interrupted, NotThere } from '../../nodes/failure.ts';
import {
  type Agents,
  BadHeader,
  CallEnd,
  answerTo,
  answered,
  causeOf,
  firstLineOf,
  open,
  originOf,
  retryAfterMs,
  wholeOf,
} from '../../nodes/http-client.ts';
import { pause } from '../waiting.ts';

export interface StreamClientOptions {
  /** The time that one attempt may take. */
  readonly timeoutMs: number;
  /** How long to try again while no node answers, or all say that they cannot now. */
  readonly patienceMs: number;
  /** The same while all nodes refuse the connection: 0 where a person waits, who may have the address wrong. */
  readonly refusedPatienceMs: number;
  readonly token: string | undefined;
  readonly ca: string | undefined;
  readonly agents?: Agents | undefined;
  readonly signal: AbortSignal;
  /** Called before each pause, with the reason. */
  readonly waiting: (why: string) => void;
}

export interface Call {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Whether a repeat takes effect once: a read, or a write with producer headers. */
  readonly mayRepeat: boolean;
  /** Added to the timeout of an attempt: the answer of a long-poll may wait. */
  readonly waitsMs?: number;
  /** Replaces the patience of the client for this request. */
  readonly patienceMs?: number;
}

export interface StreamAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** One answer is a mebibyte, or one record, which is a request's body at most. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 2000;
/** No byte of the request was read. */
const NEVER_CONNECTED: ReadonlySet<string> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'],
]);

interface Trouble {
  readonly why: string;
  /** The request certainly had no effect. */
  readonly isHarmless: boolean;
  /** The node could not be connected to. */
  readonly isRefused?: true;
  /** That the node asks for. */
  readonly pauseMs?: number;
}

export class StreamClient {
  readonly #urls: readonly string[];
  readonly #options: StreamClientOptions;
  /** The node that answered last. */
  #at = 0;

  constructor(urls: readonly string[], options: StreamClientOptions) {
    this.#urls = urls;
    this.#options = options;
  }

  /** An answer that is not 503, 507 or 502 of something in between; those mean: ask again. */
  async call(call: Call): Promise<StreamAnswer> {
    const { signal, waiting, patienceMs, refusedPatienceMs } = this.#options;
    const startMs = performance.now();
    let isAnyThere = false;
    // The shortest that a node of this turn asked for: another one may have room before.
    let askedMs = Infinity;
    for (let attempt = 0, waitMs = RETRY_MS_MIN; ; attempt++) {
      const url = this.#urls[this.#at % this.#urls.length] ?? '';
      const outcome = await this.#attempt(url, call);
      if ('status' in outcome) return outcome;
      this.#at++;
      if (!call.mayRepeat && !outcome.isHarmless)
        throw new Failure(`${outcome.why}; whether it took effect is not known`);
      isAnyThere ||= outcome.isRefused !== true;
      askedMs = Math.min(askedMs, outcome.pauseMs ?? 0);
      // All nodes in turn, then a pause.
      if ((attempt + 1) % this.#urls.length !== 0) continue;
      const patience = call.patienceMs ?? (isAnyThere ? patienceMs : refusedPatienceMs);
      const leftMs = startMs + patience - performance.now();
      if (leftMs <= 0)
        throw new Failure(patience < patienceMs ? `${outcome.why}; --retry-secs waits for a node` : outcome.why);
      waiting(outcome.why);
      await pause(Math.min(leftMs, Math.max(waitMs, askedMs)), signal);
      waitMs = Math.min(RETRY_MS_MAX, waitMs * 2);
      askedMs = Infinity;
    }
  }

  async #attempt(
    url: string,
    { method, path, headers = {}, body, waitsMs = 0 }: Call,
  ): Promise<StreamAnswer | Trouble> {
    const { timeoutMs, token, ca, agents, signal } = this.#options;
    const end = new CallEnd(timeoutMs + waitsMs, signal);
    try {
      const request = open(
        { token, ca, agents },
        {
          method,
          url: url + path,
          headers: { ...headers, ...(body === undefined ? {} : { 'content-length': body.length }) },
          signal: end.signal,
        },
      );
      const answering = answerTo(request);
      request.end(body);
      const answer = await answering;
      const status = answer.statusCode ?? 0;
      const whole = { status, headers: answer.headers, body: await bodyOf(answer) };
      if (status !== 503 && status !== 507 && status !== 502) return whole;
      const isHarmless = status !== 502 && answer.headers['millrace-error'] !== 'OUTCOME_UNKNOWN';
      // An object of the cold store is missing: that is no trouble of the moment.
      if (answer.headers['millrace-error'] === 'COLD_OBJECT_BAD') return whole;
      return { why: `${originOf(url)}: ${sentenceOf(whole)}`, isHarmless, pauseMs: retryAfterMs(answer) };
    } catch (error) {
      if (signal.aborted) throw new Interrupted();
      if (error instanceof BadHeader) throw error;
      if (end.signal.aborted)
        return { why: `${originOf(url)} did not answer within ${(timeoutMs + waitsMs) / 1000} s`, isHarmless: false };
      const why = `${originOf(url)} cannot be reached (${causeOf(error)})`;
      return neverConnected(error) ? { why, isHarmless: true, isRefused: true } : { why, isHarmless: false };
    } finally {
      end.over();
    }
  }
}

async function bodyOf(answer: IncomingMessage): Promise<Buffer> {
  const body = await wholeOf(answer, ANSWER_BYTES_MAX, () => new Failure('its answer does not end'));
  // A connection that breaks ends the loop without an error, if no length was announced.
  if (!answer.complete) throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
  return body;
}

function neverConnected(error: unknown): boolean {
  const { code, errors } = error as { code?: unknown; errors?: readonly unknown[] };
  if (typeof code === 'string' && NEVER_CONNECTED.has(code)) return true;
  return errors !== undefined && errors.length > 0 && errors.every(neverConnected);
}

/** The node's own sentence about a request that it refused. */
export function sentenceOf({ status, body }: StreamAnswer): string {
  if (status === 401)
    return 'it wants a bearer token, or another: set MILLRACE_CLIENT_TOKEN or give --client-token-file';
  return answered(status, firstLineOf(body.toString('utf8')));
}

/** The answer, if it has one of these statuses; else a Failure that names what was asked for. */
export function expectStatus(answer: StreamAnswer, what: string, ...statuses: readonly number[]): StreamAnswer {
  if (statuses.includes(answer.status)) return answer;
  const code = headerOf(answer, 'millrace-error');
  if (code === 'ROUTE_NOT_FOUND')
    throw new Failure(`${what}: this address has no such route; give that of a client plane, not of an admin plane`);
  // Only a client plane says so with a code: a proxy or another server that answers 404 knows nothing of it.
  if (code !== undefined && (answer.status === 404 || code === 'STREAM_DELETED'))
    throw new NotThere(`${what} is not there (${sentenceOf(answer)})`);
  throw new Failure(`${what}: ${sentenceOf(answer)}`);
}

/** A header that a node always sends. */
export function headerOf({ headers }: StreamAnswer, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}
