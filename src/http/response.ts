/**
 * How answers are written: status lines, the header block that every answer has, and
 * refusals. Answers to reads have more (read-response.ts).
 *
 * Rules of uWebSockets.js for all code that writes an answer:
 * - After the route handler has returned, an answer is written inside `res.cork(() =>
 *   ...)`, else every write is a system call of its own.
 * - `res` is dead after `end`, `endWithoutBody`, `close`, and after onAborted has
 *   fired. Touching it then throws at best.
 * - `end(body)` writes a body for HEAD as well: HEAD, 204 and 304 use endWithoutBody. An empty 200 or 201 uses
 *   `end()`, because it needs `Content-Length: 0`: without one the client waits for the connection to close.
 * - Status line and static headers are one call with bytes (heads.ts).
 * - Idle timeout: see the notes in server.ts.
 */
import { type ErrorCode, ERRORS, errorCode, generalCode } from '../base/errors.ts';
import { formatOffset } from '../protocol/header-values.ts';
import { REPLY_RECORDS, type Reply, explanation, expectedSeq, producerEpoch, receivedSeq } from '../protocol/reply.ts';
import type { RouteFamily, ReadCaching } from './context.ts';
import type { CorsBlocks, CorsPolicy } from '../access/cors.ts';
import type { HeaderWriter } from '../access/stored-type.ts';
import type { ResponseBackpressure } from './backpressure.ts';
import { Heads, PositionHead, staticBlock } from './heads.ts';
import { REQUEST_ID_HEADER, type RequestIds } from '../audit/request-ids.ts';
import type { UwsResponse } from './uws.ts';

/** The kinds of Cache-Control; `read` and `turn` mean what http.read_cache makes of them. */
export type CacheControl = 'no-store' | 'no-cache' | 'public' | 'read' | 'turn';

/** As the protocol recommends. */
const READ_SECONDS = 'max-age=60, stale-while-revalidate=300';
/** Long enough for a request at a cache's lock to see it (nginx: each 0.5 s), short enough to miss nothing. */
const TURN_SECONDS = 'max-age=2';

/** The two values of Cache-Control. A private cache has one reader: there is nothing to share between turns. */
function cacheValues(readCache: ReadCaching): { readonly read: string; readonly turn: string } {
  if (readCache === 'none') return { read: 'no-store', turn: 'no-store' };
  return {
    read: `${readCache}, ${READ_SECONDS}`,
    turn: readCache === 'public' ? `public, ${TURN_SECONDS}` : 'no-store',
  };
}

/** The code of a refusal, for programs: sentences may change. Answers from 400 on have one, and the request's id. */
const ERROR_HEADER = 'millrace-error';
export const TEXT_PLAIN = 'text/plain; charset=utf-8';
export const JSON_TYPE = 'application/json';
export const RECORD_EXTENSION = 'json-record-coordinates-v1';
const RETRY_AFTER_SECONDS = '1';
const encoder = new TextEncoder();
/** Characters that fit the cork buffer however they are encoded: the sentences of refusals, most documents. */
const SHORT_TEXT_LENGTH = 2048;

/** Refusals whose body is a JSON object that programs look at, not a sentence. */
const JSON_BODIES: ReadonlyMap<ErrorCode, string> = new Map([
  ['INFLIGHT_FULL', '{"error":"IngressBodyBytesLimitReached"}'],
]);

/** Refusals whose reply carries a position of the stream in nextOffset: the tail, for 410 the floor. */
export const CODES_WITH_OFFSET: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(['STREAM_CLOSED', 'CREATE_CONFLICT', 'FORK_BEYOND_TAIL', 'CONTENT_TYPE_MISMATCH', 'SEQ_CONFLICT'] as const),
  ...(['PRODUCER_EPOCH_STALE', 'PRODUCER_SEQ_CONFLICT', 'RECORD_PRECONDITION_FAILED', 'PRECONDITION_FAILED'] as const),
  'EXPECTED_OFFSET_CONFLICT',
  ...(['OFFSET_OUT_OF_RANGE', 'STREAM_GONE', 'POSITION_INSIDE_MESSAGE'] as const),
  ...(['SNAPSHOT_BEYOND_TAIL', 'SNAPSHOT_MISMATCH', 'SNAPSHOT_STALE', 'SNAPSHOT_CONFLICT'] as const),
  ...(['RETENTION_BACKWARDS', 'RETENTION_BEYOND_SNAPSHOT'] as const),
]);

/** `detail` follows the sentence of the code. */
interface Refused {
  readonly code: ErrorCode;
  readonly detail?: string | undefined;
  /** When a repeat may succeed, if that is known. */
  readonly retrySeconds?: number | undefined;
}

export function retryAfter(seconds?: number): string {
  return seconds === undefined ? RETRY_AFTER_SECONDS : String(seconds);
}

export interface ResponderOptions {
  readonly cors: CorsBlocks;
  /** Answers to HEAD omit it. */
  readonly body: 'written' | 'omitted';
  readonly backpressure: ResponseBackpressure;
  readonly ids: RequestIds;
  readonly readCache?: ReadCaching;
}

/**
 * Writes the parts that all answers to one kind of request share. There is one instance for each CORS result and for
 * HEAD or not, made at start, so a request costs no allocation here.
 */
export class Responder {
  /** HEAD: refusals carry no body. */
  readonly headOnly: boolean;
  /** Vary of an answer that comes in two codings. Some caches keep the last Vary only, so it names all. */
  readonly codingVary: string;
  /** The last response whose status was written, and the last one that was answered whole. */
  begun: UwsResponse | undefined = undefined;
  ended: UwsResponse | undefined = undefined;
  /** The code of the refusal that was begun last. */
  code = '';
  readonly #backpressure: ResponseBackpressure;
  readonly #ids: RequestIds;
  readonly #heads: Readonly<Record<CacheControl, Heads>>;
  readonly #preflight: Heads;
  readonly #written: PositionHead;
  readonly #writtenByProducer: PositionHead;

  constructor({ cors, body, backpressure, ids, readCache = 'none' }: ResponderOptions) {
    this.headOnly = body === 'omitted';
    this.#backpressure = backpressure;
    this.#ids = ids;
    const noStore = staticBlock('no-store', cors.answer);
    this.#written = new PositionHead(204, noStore);
    this.#writtenByProducer = new PositionHead(200, noStore);
    const { read, turn } = cacheValues(readCache);
    const shared = readCache === 'none' ? cors.answer : cors.shared;
    this.codingVary = shared.includes('vary: Origin') ? 'Origin, Accept-Encoding' : 'Accept-Encoding';
    this.#heads = {
      'no-store': new Heads(noStore),
      'no-cache': new Heads(staticBlock('no-cache', cors.answer)),
      public: new Heads(staticBlock('public, max-age=300', cors.answer)),
      read: new Heads(staticBlock(read, shared)),
      turn: new Heads(staticBlock(turn, shared)),
    };
    this.#preflight = cors.preflight === '' ? this.#heads['no-store'] : new Heads(`${noStore}\r\n${cors.preflight}`);
  }

  /**
   * Status line and the static block, with `cache-control: no-store`; for event streams `no-cache`; for what any cache
   * may keep for five minutes `public`; for reads what http.read_cache says. `code` is a refusal's.
   */
  begin(res: UwsResponse, status: number, cache: CacheControl = 'no-store', code?: string): void {
    this.begun = res;
    res.writeStatus(this.#heads[cache].of(status));
    if (status < 400) return;
    this.code = code ?? generalCode(status);
    res.writeHeader(ERROR_HEADER, this.code);
    res.writeHeader(REQUEST_ID_HEADER, this.#ids.of(res));
  }

  /** Does what `begin` does and writes Stream-Next-Offset in the same call, for the answers to appends. */
  beginWritten(res: UwsResponse, status: 200 | 204, nextOffset: number): void {
    this.begun = res;
    res.writeStatus((status === 204 ? this.#written : this.#writtenByProducer).at(nextOffset));
  }

  /** The whole answer to OPTIONS. `allow`: the methods of the route, '' when they are not told. */
  preflight(res: UwsResponse, allow: string): number {
    this.begun = res;
    res.writeStatus(this.#preflight.of(204));
    if (allow !== '') res.writeHeader('allow', allow);
    res.endWithoutBody();
    this.ended = res;
    return 204;
  }

  /** A whole JSON answer. Returns the status, for the metrics, as every whole answer does. */
  json(res: UwsResponse, status: number, body: string | Uint8Array): number {
    this.begin(res, status);
    res.writeHeader('content-type', JSON_TYPE);
    this.end(res, body);
    return status;
  }

  /** JSON that says why not, for a client that should come back. */
  unavailable(res: UwsResponse, body: string): number {
    this.begin(res, 503);
    res.writeHeader('retry-after', RETRY_AFTER_SECONDS);
    res.writeHeader('content-type', JSON_TYPE);
    this.end(res, body);
    return 503;
  }

  empty(res: UwsResponse, status: 200 | 201 | 204): number {
    this.begin(res, status);
    if (status === 204) res.endWithoutBody();
    else res.writeHeader('content-type', TEXT_PLAIN).end();
    return status;
  }

  /** 204, which makes an EventSource stop reconnecting: the stream is closed, and nothing comes after `reply`. */
  closed(res: UwsResponse, reply: Reply): number {
    this.begin(res, 204);
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    res.writeHeader('stream-closed', 'true');
    res.endWithoutBody();
    return 204;
  }

  /** A whole answer of one sentence that stands in no table. */
  text(res: UwsResponse, status: number, sentence: string): number {
    this.begin(res, status);
    res.writeHeader('content-type', TEXT_PLAIN);
    this.end(res, `${sentence}\n`);
    return status;
  }

  /** A whole refusal. Call it corked. */
  error(res: UwsResponse, family: RouteFamily, refused: Refused): number {
    this.#beginRefusal(res, family, refused);
    return this.#endRefusal(res, family, refused);
  }

  /** error() for a reply with a code other than OK: what the reply knows goes into headers and sentence. */
  refusal(res: UwsResponse, family: RouteFamily, reply: Reply): number {
    const code = errorCode(reply.code);
    this.#beginRefusal(res, family, { code });
    writeRefusalHeaders(res, code, reply);
    return this.#endRefusal(res, family, { code, detail: explanation(reply) });
  }

  #beginRefusal(res: UwsResponse, family: RouteFamily, { code, detail = '', retrySeconds }: Refused): void {
    const row = ERRORS[code];
    this.begin(res, row[family], 'no-store', code);
    if (row.retry) res.writeHeader('retry-after', retryAfter(retrySeconds));
    if (code === 'CONTENT_ENCODING') res.writeHeader('accept-encoding', 'identity');
    // RFC 9110, 15.5.22, and the connection option that 7.8 wants beside it.
    if (code === 'UPGRADE_REQUIRED') res.writeHeader('upgrade', 'websocket').writeHeader('connection', 'upgrade');
    const challenge = challengeOf(code, detail);
    if (challenge !== undefined) res.writeHeader('www-authenticate', challenge);
  }

  #endRefusal(res: UwsResponse, family: RouteFamily, { code, detail = '' }: Refused): number {
    const row = ERRORS[code];
    const json = JSON_BODIES.get(code);
    res.writeHeader('content-type', json === undefined ? TEXT_PLAIN : JSON_TYPE);
    this.end(res, json ?? (detail === '' ? `${row.text}\n` : `${row.text}: ${detail}\n`));
    return row[family];
  }

  /** error(), and the connection is closed. */
  refuseAndClose(res: UwsResponse, code: ErrorCode, detail: string): number {
    const { bucketed, text } = ERRORS[code];
    this.begin(res, bucketed, 'no-store', code);
    res.writeHeader('content-type', TEXT_PLAIN);
    if (this.headOnly) res.endWithoutBody(0, true);
    else res.end(`${text}: ${detail}\n`, true);
    return bucketed;
  }

  /** 405 with the methods that the route does have. */
  methodNotAllowed(res: UwsResponse, allow: string): number {
    this.begin(res, 405, 'no-store', 'METHOD_NOT_ALLOWED');
    res.writeHeader('allow', allow);
    res.writeHeader('content-type', TEXT_PLAIN);
    this.end(res, `${ERRORS.METHOD_NOT_ALLOWED.text}: ${allow}\n`);
    return 405;
  }

  /**
   * Ends an answer that has its headers; a HEAD without the body. Call it corked. What is large goes past the cork
   * buffer of uWebSockets.js, which loses it when the client does not read (backpressure.ts).
   */
  end(res: UwsResponse, body: string | Uint8Array): void {
    if (this.headOnly) res.endWithoutBody();
    else if (typeof body !== 'string') this.#backpressure.end(res, body);
    else if (body.length <= SHORT_TEXT_LENGTH) res.end(body);
    else this.#backpressure.end(res, encoder.encode(body));
    this.ended = res;
  }
}

/** HEAD gets one of its own. */
interface Pair {
  readonly body: Responder;
  readonly head: Responder;
}

/** Two responders for each result of the CORS policy: one for HEAD and one for everything else. */
export class Responders {
  readonly #cors: CorsPolicy;
  readonly #shared: Omit<ResponderOptions, 'cors' | 'body'>;
  /** The pairs live as long as the policy keeps their blocks. */
  readonly #pairs = new WeakMap<CorsBlocks, Pair>();
  /** When all origins get the same, neither the origin nor a map is needed. */
  readonly #only: Pair | undefined;
  /** For requests that name no origin, which is all but those of browsers. */
  readonly #none: Pair;

  constructor(cors: CorsPolicy, shared: Omit<ResponderOptions, 'cors' | 'body'>) {
    this.#shared = shared;
    this.#cors = cors;
    this.#none = this.#pairOf(cors.blocksFor(''));
    this.#only = cors.readsOrigin ? undefined : this.#none;
  }

  for(origin: string): Pair {
    return this.#only ?? (origin === '' ? this.#none : this.#pairOf(this.#cors.blocksFor(origin)));
  }

  #pairOf(blocks: CorsBlocks): Pair {
    const known = this.#pairs.get(blocks);
    if (known !== undefined) return known;
    const common = { ...this.#shared, cors: blocks };
    const pair = {
      body: new Responder({ ...common, body: 'written' }),
      head: new Responder({ ...common, body: 'omitted' }),
    };
    this.#pairs.set(blocks, pair);
    return pair;
  }
}

/** The token is valid and does not allow it. */
export const INSUFFICIENT = 'Bearer error="insufficient_scope"';

/** The challenge to the sender, as RFC 6750 writes it. `detail` of a 401 is one of our own sentences. */
function challengeOf(code: ErrorCode, detail: string): string | undefined {
  if (code === 'INSUFFICIENT_SCOPE') return INSUFFICIENT;
  if (code !== 'UNAUTHORIZED') return undefined;
  return detail === '' ? 'Bearer' : `Bearer error="invalid_token", error_description="${detail}"`;
}

/** Headers of a refusal that its reply has values for. */
export function writeRefusalHeaders(res: HeaderWriter, code: ErrorCode, reply: Reply): void {
  if (CODES_WITH_OFFSET.has(code)) res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  if (code === 'STREAM_CLOSED') res.writeHeader('stream-closed', 'true');
  if (code === 'PRODUCER_EPOCH_STALE') res.writeHeader('producer-epoch', String(producerEpoch(reply)));
  if (code === 'PRODUCER_SEQ_CONFLICT') {
    res.writeHeader('producer-expected-seq', String(expectedSeq(reply)));
    res.writeHeader('producer-received-seq', String(receivedSeq(reply)));
  }
  if (code === 'RECORD_PRECONDITION_FAILED') {
    res.writeHeader('stream-record-next', String(reply.recordNext));
    res.writeHeader('stream-extensions', RECORD_EXTENSION);
  } else if (code === 'RECORD_OUT_OF_RANGE') writeRange(res, reply);
  else if (code === 'STREAM_GONE') writeRecordRange(res, reply);
}

type RecordRange = Pick<Reply, 'flags' | 'recordFirst' | 'recordNext'>;

/** First retained ordinal and the tail's, of a JSON stream. */
export function writeRecordRange(res: HeaderWriter, reply: RecordRange): void {
  if ((reply.flags & REPLY_RECORDS) !== 0) writeRange(res, reply);
}

function writeRange(res: HeaderWriter, { recordFirst, recordNext }: RecordRange): void {
  res.writeHeader('stream-record-first', String(recordFirst));
  res.writeHeader('stream-record-next', String(recordNext));
  res.writeHeader('stream-extensions', RECORD_EXTENSION);
}
