/**
 * Answers to reads, in every mode: their headers, their ETags, what caches may keep, and whether they are compressed.
 *
 * Bytes at an offset never change, so an answer that has bytes from a position that the URL names is good for as long as the stream is:
 * what came later is found at the next offset, another URL. What has no bytes says "nothing yet" and must not be kept, but for the
 * end of a closed stream, which is final. Live readers that wait at one URL share an answer too: with bytes as above, and for a moment
 * without. The cursor that comes with it makes the next URL of all of them the same again, and another one than before.
 *
 * Only large answers of JSON streams come in two forms, as they are or compressed; each has an ETag of its own, because a strong one
 * names bytes. Both say `Vary`, also in a 304.
 */
import { gzip } from 'node:zlib';
import type { HttpContext, ReadParams } from './context.ts';
import type { ErrorLog } from './guard.ts';
import { writeHeaders } from './headers.ts';
import type { RequestContext } from './request.ts';
import { requestIdOf } from './request-ids.ts';
import { type CacheControl, RECORD_EXTENSION, type Responder } from './response.ts';
import type { UwsResponse } from './uws.ts';
import { GZIP_SUFFIX, rangeTag } from '../protocol/condition.ts';
import { formatOffset } from '../protocol/header-values.ts';
import {
  READ_FLAG_ENVELOPE,
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  readCreatedAtMs,
  readIncarnation,
} from '../protocol/read.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, Reply } from '../protocol/reply.ts';

/** Was the read addressed by records? Then its answer carries the record range. */
export function isRecordRead(params: ReadParams): boolean {
  return params.mode !== READ_OFFSET && params.mode !== READ_NOW;
}

/**
 * Position, freshness, closure and record headers of a read answer: the 200 and 304 of a catch-up read and of a long-poll,
 * and its 204. Not the content type, ETag and cursor.
 */
export function writeReadHeaders(res: UwsResponse, reply: Reply, params: ReadParams): void {
  res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  if (reply.has(REPLY_UP_TO_DATE)) res.writeHeader('stream-up-to-date', 'true');
  if (reply.has(REPLY_CLOSED)) res.writeHeader('stream-closed', 'true');
  if (!reply.has(REPLY_RECORDS)) return;
  if (isRecordRead(params)) {
    res.writeHeader('stream-record-first', String(reply.recordFirst));
    res.writeHeader('stream-record-start', String(reply.recordStart));
    res.writeHeader('stream-record-next', String(reply.recordNext));
  }
  res.writeHeader('stream-extensions', RECORD_EXTENSION);
}

/**
 * ETag of a read answer, with quotes. Bytes at an offset never change within an incarnation, so the range and the
 * flags name the content and the body need not be hashed. The time of creation tells incarnations of different data
 * directories apart, which count from 1 each.
 */
export function readEtag(reply: Reply, params: ReadParams): string {
  const flags =
    (reply.flags & (REPLY_CLOSED | REPLY_UP_TO_DATE)) | (params.readFlags & READ_FLAG_ENVELOPE ? 1 << 16 : 0);
  return `"${rangeTag(readIncarnation(reply), readCreatedAtMs(reply), reply.startOffset, reply.nextOffset, flags)}"`;
}

/** If-None-Match: `*`, or a list of tags; a weak tag matches its strong twin (RFC 9110 13.1.2). */
export function etagMatches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === '') return false;
  if (ifNoneMatch === etag || ifNoneMatch.trim() === '*') return true;
  if (!ifNoneMatch.includes(etag)) return false;
  // Tags of ours hold no comma and no quote inside, so a split at commas cannot tear one apart.
  return ifNoneMatch.split(',').some((item) => {
    const tag = item.trim();
    return tag === etag || (tag.startsWith('W/') && tag.slice(2) === etag);
  });
}

export function cacheOfRead(params: ReadParams, reply: Reply): CacheControl {
  if (params.mode !== READ_OFFSET && params.mode !== READ_RECORD) return 'no-store';
  return reply.nextOffset > reply.startOffset || reply.has(REPLY_CLOSED) ? 'read' : 'no-store';
}

/** Of a long-poll that brought nothing. */
export function cacheOfTurn(params: ReadParams): CacheControl {
  return params.mode === READ_OFFSET || params.mode === READ_RECORD ? 'turn' : 'no-store';
}

/** Compressing costs a quarter of a millisecond of CPU even for little; below this size, sending the bytes costs less. */
export const COMPRESSED_FROM_BYTES = 16 * 1024;

/** What the client gets depends on its Accept-Encoding. `bytes`: of the body. */
function hasTwoForms(reply: Reply, bytes = reply.body?.length ?? 0): boolean {
  return bytes >= COMPRESSED_FROM_BYTES && reply.has(REPLY_RECORDS);
}

/** HEAD says what a read of the whole stream says; how many bytes that has is known but for a bracket. */
export function writeHeadVary(res: UwsResponse, responder: Responder, reply: Reply): void {
  if (hasTwoForms(reply, reply.nextOffset - reply.startOffset + 1)) res.writeHeader('vary', responder.codingVary);
}

/** Make it in the route handler, where the request's headers are. */
export class ReadCoding {
  readonly #ctx: HttpContext;
  readonly #params: ReadParams;
  readonly #bucket: string;
  readonly #stream: string;
  readonly #acceptEncoding = writeHeaders().acceptEncoding;
  readonly #call: RequestContext;
  #packed: Uint8Array | undefined;

  constructor(call: RequestContext, params: ReadParams) {
    const { server, bucket, stream } = call;
    this.#ctx = server.ctx;
    this.#call = call;
    this.#params = params;
    this.#bucket = bucket;
    this.#stream = stream;
  }

  /** True: the answer will be compressed, and `later` runs with a copy of `reply`. False: answer now, as it is. */
  defers(reply: Reply, later: (reply: Reply) => void): boolean {
    const { body } = reply;
    if (body === undefined || !hasTwoForms(reply) || !prefersGzip(this.#acceptEncoding)) return false;
    const tag = readEtag(reply, this.#params);
    if (this.known(tag) !== undefined) return false;
    const answer = Object.assign(new Reply(), reply);
    // No name holds NUL. The tag alone names bytes of one stream only.
    // The response, because the context serves other requests once its client has left.
    const { res } = this.#call;
    const requestId = (): string | undefined => (res === undefined ? undefined : requestIdOf(res));
    const done = (copy: Uint8Array, packed: Uint8Array | undefined): void => {
      answer.body = copy;
      answer.isBodyKept = true;
      this.#packed = packed;
      later(answer);
    };
    return compressionOf(this.#ctx).start(`${this.#bucket}\0${this.#stream}\0${tag}`, body, { done, requestId });
  }

  /** The ETag of the form that the client has, if it has one that it may be told to use. */
  known(tag: string): string | undefined {
    const { ifNoneMatch } = this.#params;
    if (ifNoneMatch === '') return undefined;
    if (etagMatches(ifNoneMatch, tag)) return tag;
    const packed = packedTag(tag);
    return etagMatches(ifNoneMatch, packed) && prefersGzip(this.#acceptEncoding) ? packed : undefined;
  }

  /** The ETag of what is sent. */
  etag(tag: string): string {
    return this.#packed === undefined ? tag : packedTag(tag);
  }

  /** Headers of a 200 or 304. */
  writeHeaders(res: UwsResponse, responder: Responder, reply: Reply): void {
    if (hasTwoForms(reply)) res.writeHeader('vary', responder.codingVary);
    if (this.#packed !== undefined) res.writeHeader('content-encoding', 'gzip');
  }

  body(reply: Reply): Uint8Array | undefined {
    return this.#packed ?? reply.body;
  }

  /** Of body(). */
  memory(reply: Reply): 'reused' | 'kept' {
    return this.#packed !== undefined || reply.isBodyKept ? 'kept' : 'reused';
  }
}

function packedTag(tag: string): string {
  return `${tag.slice(0, -1)}${GZIP_SUFFIX}"`;
}

/**
 * What a client thinks of gzip (RFC 9110, 12.5.3). A coding that is not listed has the weight of `*`; without `*` it is not taken. The bytes
 * as they are need no entry: unlisted they are the last choice, listed they win when gzip weighs no more.
 */
const GZIP: ReadonlySet<string> = new Set(['gzip', 'x-gzip']);
const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

export function prefersGzip(acceptEncoding: string): boolean {
  if (acceptEncoding === '') return false;
  let gzip: number | undefined;
  let identity: number | undefined;
  let other: number | undefined;
  for (const item of acceptEncoding.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim());
    const weight = weightOf(parameters);
    if (GZIP.has(name)) gzip ??= weight;
    else if (name === 'identity') identity ??= weight;
    else if (name === '*') other ??= weight;
  }
  return (gzip ?? other ?? 0) > (identity ?? 0);
}

/** A malformed weight counts as 0: uncompressed bytes suit every client. */
function weightOf(parameters: readonly string[]): number {
  const [weight, ...more] = parameters;
  if (weight === undefined) return 1;
  const digits = more.length === 0 ? WEIGHT.exec(weight)?.[1] : undefined;
  return digits === undefined ? 0 : Number(digits);
}

/**
 * gzip of large answers, made by the threads of libuv's pool: the HTTP thread only copies the bytes and hears of the end. zlib takes
 * them piece by piece (16 KiB of output, well below a millisecond), so other work of the pool gets its turn.
 *
 * Requests for the same bytes share one compression: a thousand long-polls that one append answers cost it once.
 * It goes on when its client leaves; it takes milliseconds, and its memory is counted until then.
 */

/** JSON shrinks to a fifth; level 6 takes three times as long as 1 to make that a sixth. */
const LEVEL = 1;
/** What zlib allocates for one stream at its usual window. */
const STATE_BYTES = 256 * 1024;
/** Seven of the largest usual answers, about 30 ms of a core. Beyond that, answers go out uncompressed instead of waiting. */
const MAKING_BYTES_MAX = 16 * 1024 * 1024;

/** `body`: a copy of what was given; `packed` is undefined when compressing failed or saved nothing. */
export type Packed = (body: Uint8Array, packed: Uint8Array | undefined) => void;

export interface Packing {
  readonly done: Packed;
  /** For log lines: made when it is asked for. */
  readonly requestId?: () => string | undefined;
}

export class Compression {
  /** Bytes that are held for work under way. */
  usedBytes = 0;
  readonly #log: ErrorLog;
  /** By the name of the bytes: who waits for them. */
  readonly #waiting = new Map<string, Packing[]>();

  constructor(log: ErrorLog) {
    this.#log = log;
  }

  /** False: there is no room. Else `done` runs once, later. Equal keys mean equal bytes; their memory may be reused afterwards. */
  start(key: string, body: Uint8Array, packing: Packing): boolean {
    const others = this.#waiting.get(key);
    if (others !== undefined) {
      others.push(packing);
      return true;
    }
    const bytes = 2 * body.length + STATE_BYTES;
    if (this.usedBytes + bytes > MAKING_BYTES_MAX) return false;
    this.usedBytes += bytes;
    const waiting = [packing];
    this.#waiting.set(key, waiting);
    const copy = body.slice();
    gzip(copy, { level: LEVEL }, (error, packed) => {
      this.usedBytes -= bytes;
      this.#waiting.delete(key);
      if (error !== null) this.#log(error, 'gzip', packing.requestId?.());
      const result = error === null && packed.length < copy.length ? packed : undefined;
      for (const one of waiting) this.#tell(one, copy, result);
    });
    return true;
  }

  /** What throws here would end the process. */
  #tell({ done, requestId }: Packing, body: Uint8Array, packed: Uint8Array | undefined): void {
    try {
      done(body, packed);
    } catch (error) {
      this.#log(error, 'gzip', requestId?.());
    }
  }
}

const compressions = new WeakMap<HttpContext, Compression>();

/** What is compressed for `ctx`. */
export function compressionOf(ctx: HttpContext): Compression {
  let compression = compressions.get(ctx);
  if (compression === undefined) compressions.set(ctx, (compression = new Compression(ctx.logError)));
  return compression;
}
