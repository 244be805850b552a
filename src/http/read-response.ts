/**
 * Answers to reads, in every mode: their headers, their ETags, what caches may keep, and whether they are compressed.
 *
 * Bytes at an offset never change, so an answer that has bytes from a position that the URL names is good for as
 * long as the stream is: what came later is found at the next offset, another URL. What has no bytes says "nothing
 * yet" and must not be kept, but for the end of a closed stream, which is final. Live readers that wait at one URL
 * share an answer too: with bytes as above, and for a moment without. The cursor that comes with it makes the next
 * URL of all of them the same again, and another one than before.
 *
 * Only large answers of JSON streams come in two forms, as they are or compressed; each has an ETag of its own,
 * because a strong one names bytes. Both say `Vary`, also in a 304.
 */
import { hash64Hex } from '../base/hash.ts';
import { prefersGzip } from '../protocol/accept-encoding.ts';
import type { ReadParams } from './context.ts';
import { isRecordRead } from './query.ts';
import type { RequestContext } from './request.ts';
import { type CacheControl, RECORD_EXTENSION, type Responder } from './response.ts';
import { type HeaderWriter, shownContentType, writeStoredType } from '../access/stored-type.ts';
import type { UwsResponse } from './uws.ts';
import { GZIP_SUFFIX, etagMatches, rangeTag } from '../protocol/condition.ts';
import { formatOffset } from '../protocol/header-values.ts';
import { READ_FLAG_ENVELOPE, readCreatedAtMs, readIncarnation } from '../protocol/queries/read.ts';
import { READ_OFFSET, READ_RECORD } from '../protocol/read-fields.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, Reply } from '../protocol/reply.ts';

/**
 * Position, freshness, closure and record headers of a read answer: the 200 and 304 of a catch-up read and of a
 * long-poll, and its 204. Not the content type, ETag and cursor.
 */
export function writeReadHeaders(res: HeaderWriter, reply: Reply, params: ReadParams): void {
  res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  writeIncarnation(res, reply);
  writeReadState(res, reply, params);
}

/** The same without the position. */
export function writeReadState(res: HeaderWriter, reply: Reply, params: ReadParams): void {
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

/** Tells the stream from all that had or will have its name: a reader compares it before it goes on at an offset. */
export function writeIncarnation(res: HeaderWriter, reply: Reply): void {
  res.writeHeader('stream-incarnation', hash64Hex([readIncarnation(reply), readCreatedAtMs(reply)]));
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

function cacheOfRead(params: ReadParams, reply: Reply): CacheControl {
  if (params.mode !== READ_OFFSET && params.mode !== READ_RECORD) return 'no-store';
  return reply.nextOffset > reply.startOffset || reply.has(REPLY_CLOSED) ? 'read' : 'no-store';
}

/** A long-poll that brought nothing may be shared for a moment. */
export function cacheOfTurn(params: ReadParams): CacheControl {
  return params.mode === READ_OFFSET || params.mode === READ_RECORD ? 'turn' : 'no-store';
}

/** Compressing costs a quarter of a millisecond of CPU even for little; below this, sending costs less. */
export const COMPRESSED_FROM_BYTES = 16 * 1024;

/** Does the form of the answer depend on Accept-Encoding? `bytes`: the size of its body. */
function hasTwoForms(reply: Reply, bytes = reply.body?.length ?? 0): boolean {
  return bytes >= COMPRESSED_FROM_BYTES && reply.has(REPLY_RECORDS);
}

/** HEAD says what a read of the whole stream says; how many bytes that has is known but for a bracket. */
export function writeHeadVary(res: UwsResponse, responder: Responder, reply: Reply): void {
  if (hasTwoForms(reply, reply.nextOffset - reply.startOffset + 1)) res.writeHeader('vary', responder.codingVary);
}

/** Parts of an answer to a read beside its position and bytes. */
export interface Shown {
  /** The ETag of the bytes as they are. */
  readonly tag: string | undefined;
  readonly cursor?: string | undefined;
}

/** Make it in the route handler, where the request's headers are. */
export class ReadCoding {
  readonly #params: ReadParams;
  readonly #bucket: string;
  readonly #stream: string;
  readonly #acceptEncoding: string;
  readonly #call: RequestContext;
  #packed: Uint8Array | undefined;

  constructor(call: RequestContext, params: ReadParams) {
    const { bucket, stream } = call;
    this.#acceptEncoding = call.headers.acceptEncoding;
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
    const { res, server } = this.#call;
    const requestId = (): string | undefined => (res === undefined ? undefined : server.ids.of(res));
    const done = (copy: Uint8Array, packed: Uint8Array | undefined): void => {
      answer.body = copy;
      answer.isBodyKept = true;
      this.#packed = packed;
      later(answer);
    };
    return server.node.compression.start(`${this.#bucket}\0${this.#stream}\0${tag}`, body, { done, requestId });
  }

  /** The ETag of the form that the client has, if it has one that it may be told to use. */
  known(tag: string): string | undefined {
    const { ifNoneMatch } = this.#params;
    if (ifNoneMatch === '') return undefined;
    if (etagMatches(ifNoneMatch, tag)) return tag;
    const packed = packedTag(tag);
    return etagMatches(ifNoneMatch, packed) && prefersGzip(this.#acceptEncoding) ? packed : undefined;
  }

  /** The whole answer: 200 with the bytes of `reply`, or 304. */
  write({ responder, server }: RequestContext, res: UwsResponse, reply: Reply, { tag, cursor }: Shown): number {
    const known = tag === undefined ? undefined : this.known(tag);
    const packed = this.#packed;
    const status = known === undefined ? 200 : 304;
    responder.begin(res, status, cacheOfRead(this.#params, reply));
    writeStoredType(res, shownContentType(reply));
    writeReadHeaders(res, reply, this.#params);
    if (cursor !== undefined) res.writeHeader('stream-cursor', cursor);
    if (hasTwoForms(reply)) res.writeHeader('vary', responder.codingVary);
    if (packed !== undefined) res.writeHeader('content-encoding', 'gzip');
    if (tag !== undefined) res.writeHeader('etag', known ?? (packed === undefined ? tag : packedTag(tag)));
    const body = packed ?? reply.body;
    if (status === 304) res.endWithoutBody();
    else if (body === undefined) res.end();
    else server.backpressure.end(res, body, packed !== undefined || reply.isBodyKept ? 'kept' : 'reused');
    return status;
  }
}

function packedTag(tag: string): string {
  return `${tag.slice(0, -1)}${GZIP_SUFFIX}"`;
}
