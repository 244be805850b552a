/**
 * The form in which one read is answered: as it is, or compressed. Only large answers of JSON streams come in two forms; each has an
 * ETag of its own, because a strong one names bytes. Both say `Vary`, also in a 304.
 */
import { GZIP_SUFFIX } from '../protocol/condition.ts';
import { REPLY_RECORDS, Reply } from '../protocol/reply.ts';
import { prefersGzip } from './accept-encoding.ts';
import { compressionOf } from './compression.ts';
import type { HttpContext, ReadParams } from './contract.ts';
import { writeHeaders } from './headers.ts';
import { type Responder, etagMatches, readEtag } from './response.ts';
import type { UwsResponse } from './uws.ts';

/** To compress costs a quarter of a millisecond of CPU however little there is; to send fewer bytes than this costs less. */
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
  #packed: Uint8Array | undefined;

  constructor(ctx: HttpContext, params: ReadParams, bucket: string, stream: string) {
    this.#ctx = ctx;
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
    return compressionOf(this.#ctx).start(`${this.#bucket}\0${this.#stream}\0${tag}`, body, (copy, packed) => {
      answer.body = copy;
      this.#packed = packed;
      later(answer);
    });
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
}

function packedTag(tag: string): string {
  return `${tag.slice(0, -1)}${GZIP_SUFFIX}"`;
}
