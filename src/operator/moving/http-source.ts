/** A stream of any server of the Durable Streams protocol, by its address. */
import type { IncomingMessage } from 'node:http';
import { type Readable, pipeline } from 'node:stream';
import { createBrotliDecompress, createUnzip } from 'node:zlib';
import { Failure, Interrupted, NotThere } from '../../nodes/failure.ts';
import { BadHeader, answerTo, causeOf, open, originOf, retryAfterMs, saidBy } from '../../nodes/http-client.ts';
import { pause } from '../waiting.ts';
import { ArraySplitter } from '../streams/array-splitter.ts';
import { isJsonType, madeAgain, offsetText, wholeNumber } from '../streams/reading.ts';
import { type ImportSource, type Unit, lifetimeIn } from './import-source.ts';

export interface HttpSourceOptions {
  readonly token: string | undefined;
  readonly ca: string | undefined;
  /** Silence for so long ends an attempt. */
  readonly timeoutMs: number;
  /** How long to try again without any progress. */
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

const RETRY_MS = 500;

export async function httpSource(url: string, options: HttpSourceOptions): Promise<ImportSource> {
  const server = new SourceServer(url, options);
  const { headers } = await server.patiently(async () => {
    const answer = await server.ask('HEAD', '');
    answer.resume();
    return answer;
  });
  const contentType = headers['content-type'] ?? 'application/octet-stream';
  const isJson = isJsonType(contentType);
  // Millrace says where a stream begins, and its offsets are positions; those of other servers have no meaning.
  const floor = wholeNumber(headers['stream-retained-offset']);
  const begin: Begin = { floor, firstRecord: wholeNumber(headers['stream-record-first']) ?? 0 };
  const trimmed = floor === undefined || floor === 0 ? '' : ` from ${floor}`;
  return {
    label: url,
    identity: `http:${url}${trimmed}`,
    contentType,
    isJson,
    createHeaders: lifetimeIn(headers),
    total: totalOf(headers, isJson, begin),
    read: (from) => readFrom(server, isJson, from, begin),
  };
}

interface Begin {
  /** Undefined: a server that does not say. */
  readonly floor: number | undefined;
  readonly firstRecord: number;
}

function totalOf(
  headers: IncomingMessage['headers'],
  isJson: boolean,
  { floor, firstRecord }: Begin,
): number | undefined {
  if (floor === undefined) return undefined;
  const end = wholeNumber(headers[isJson ? 'stream-record-next' : 'stream-next-offset']);
  return end === undefined ? undefined : end - (isJson ? firstRecord : floor);
}

/** Where to begin, and how much of what comes then is there already. */
function startOf(isJson: boolean, from: number, { floor, firstRecord }: Begin): { query: string; skip: number } {
  if (floor === undefined) return { query: 'offset=-1', skip: from };
  return { query: isJson ? `record=${firstRecord + from}` : `offset=${offsetText(floor + from)}`, skip: 0 };
}

/** In a row. A server may have gaps; one that says that there is more, and sends nothing, leads nowhere. */
const EMPTY_ANSWERS_MAX = 100;

async function* readFrom(
  server: SourceServer,
  isJson: boolean,
  from: number,
  begin: Begin,
): AsyncGenerator<readonly Unit[], boolean> {
  let { query, skip } = startOf(isJson, from, begin);
  let emptyAnswers = 0;
  let incarnation: string | string[] | undefined;
  for (;;) {
    const answer = await server.ask('GET', query);
    const told = answer.headers['stream-incarnation'] ?? incarnation;
    incarnation ??= told;
    if (told !== incarnation) {
      answer.destroy();
      throw madeAgain(server.url);
    }
    let seen = 0;
    try {
      for await (const units of unitsOf(server.piecesOf(answer), isJson)) {
        const size = isJson ? units.length : (units[0]?.length ?? 0);
        const dropped = Math.max(0, skip - seen);
        seen += size;
        if (dropped < size) yield isJson ? units.slice(dropped) : units.map((unit) => unit.subarray(dropped));
      }
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      // The same again, without what has come.
      if (seen > skip) server.hasMoved();
      skip = Math.max(skip, seen);
      await server.waitAfter(error);
      continue;
    }
    server.hasMoved();
    skip = Math.max(0, skip - seen);
    const next = answer.headers['stream-next-offset'];
    const isAtTail = answer.headers['stream-up-to-date'] === 'true';
    if (isAtTail || typeof next !== 'string') return answer.headers['stream-closed'] === 'true';
    const following = `offset=${encodeURIComponent(next)}`;
    emptyAnswers = seen === 0 ? emptyAnswers + 1 : 0;
    if (emptyAnswers > EMPTY_ANSWERS_MAX || (seen === 0 && following === query))
      throw new Failure(`${server.url}: there is more behind offset ${next}, it says, and sends nothing`);
    if (following === query)
      throw new Failure(`${server.url}: what it sends from offset ${next} ends at offset ${next}, it says`);
    query = following;
  }
}

async function* unitsOf(pieces: AsyncIterable<Buffer>, isJson: boolean): AsyncGenerator<Buffer[], void> {
  const splitter = new ArraySplitter();
  for await (const piece of pieces) {
    const units = isJson ? splitter.push(piece) : [piece];
    if (units.length > 0) yield units;
  }
  if (isJson) splitter.end();
}

/** The connection, or the server for a moment. */
class Broken extends Failure {
  /** That the server asks for. */
  readonly pauseMs: number;

  constructor(message: string, pauseMs = 0) {
    super(message);
    this.pauseMs = pauseMs;
  }
}

class SourceServer {
  readonly url: string;
  readonly #options: HttpSourceOptions;
  #deadlineMs: number;

  constructor(url: string, options: HttpSourceOptions) {
    this.url = url;
    this.#options = options;
    this.#deadlineMs = performance.now() + options.patienceMs;
  }

  hasMoved(): void {
    this.#deadlineMs = performance.now() + this.#options.patienceMs;
  }

  /** Throws what broke when there was no progress for too long. */
  async waitAfter(broken: Broken): Promise<void> {
    const leftMs = this.#deadlineMs - performance.now();
    if (leftMs <= 0) throw broken;
    await pause(Math.min(leftMs, Math.max(RETRY_MS, broken.pauseMs)), this.#options.signal);
  }

  async patiently<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await this.waitAfter(error);
      }
    }
  }

  /** An answer with status 200, whose body is still to come. */
  async ask(method: 'GET' | 'HEAD', query: string): Promise<IncomingMessage> {
    return await this.patiently(() => this.#ask(method, query));
  }

  async #ask(method: string, query: string): Promise<IncomingMessage> {
    const { token, ca, signal, timeoutMs } = this.#options;
    const url = query === '' ? this.url : `${this.url}${this.url.includes('?') ? '&' : '?'}${query}`;
    let answer: IncomingMessage;
    try {
      const request = open({ token, ca }, { method, url, headers: { 'accept-encoding': 'identity' }, signal });
      request.setTimeout(timeoutMs, () => request.destroy(new Error('silence')));
      const answering = answerTo(request);
      request.end();
      answer = await answering;
    } catch (error) {
      if (signal.aborted) throw new Interrupted();
      if (error instanceof BadHeader) throw error;
      throw new Broken(`${originOf(this.url)} cannot be reached (${causeOf(error)})`);
    }
    const status = answer.statusCode ?? 0;
    if (status === 200) return answer;
    const said = `${this.url}: ${await saidBy(answer)}`;
    if (status === 404) throw new NotThere(`${this.url} is not there (it answered 404)`);
    if (status === 401) throw new Failure(`${this.url}: it wants a bearer token, or another: give --from-token-file`);
    // An object of its cold store that cannot be read is no trouble of the moment.
    const passes = (status >= 500 || status === 429) && answer.headers['millrace-error'] !== 'COLD_OBJECT_BAD';
    throw passes ? new Broken(said, retryAfterMs(answer)) : new Failure(said);
  }

  async *piecesOf(answer: IncomingMessage): AsyncGenerator<Buffer, void> {
    try {
      for await (const piece of this.#decoded(answer) as AsyncIterable<Buffer>) yield piece;
    } catch (error) {
      if (this.#options.signal.aborted) throw new Interrupted();
      if (error instanceof Failure) throw error;
      throw new Broken(`${originOf(this.url)} ended an answer early (${causeOf(error)})`);
    }
    if (!answer.complete) throw new Broken(`${originOf(this.url)} ended an answer early`);
  }

  /** Some servers and proxies compress although `identity` was asked for. */
  #decoded(answer: IncomingMessage): Readable {
    const coding = answer.headers['content-encoding']?.toLowerCase() ?? 'identity';
    if (coding === 'identity') return answer;
    const isBrotli = coding === 'br';
    if (!isBrotli && !['gzip', 'x-gzip', 'deflate'].includes(coding)) {
      answer.destroy();
      throw new Failure(
        `${this.url}: its Content-Encoding ${coding} is not one that import decodes (gzip, deflate, br)`,
      );
    }
    // The loop over the decoder sees the errors of both.
    return pipeline(answer, isBrotli ? createBrotliDecompress() : createUnzip(), () => undefined);
  }
}
