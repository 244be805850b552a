/** GET and PUT /{bucket}/{stream}/attrs. */
import { ATTRIBUTES_BYTES_MAX } from '../../base/limits.ts';
import { isJson } from '../../protocol/media-type.ts';
import type { Reply } from '../../protocol/reply.ts';
import { newRequest } from '../../protocol/request.ts';
import { BodyExchange } from '../body.ts';
import { Exchange } from '../exchange.ts';
import { writeHeaders, declaredBytes } from '../headers.ts';
import type { Plane } from '../plane.ts';
import { JSON_TYPE, type Responder } from '../respond.ts';
import type { UwsResponse } from '../uws.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';

/**
 * Bytes of an attribute body as sent. The limit of 16 KiB counts the normalised form, which may be smaller: blanks, escapes
 * and unknown members go. But attributes travel inside the mailbox frame, so what is sent needs a bound too.
 */
const SENT_BYTES_MAX = 8 * ATTRIBUTES_BYTES_MAX;

export function handleGetAttributes(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const exchange = new GetExchange(plane);
  exchange.open(res, responder, 'bucketed', 'attrs', startedMs);
  exchange.send(
    plane.streamQuery(QUERIES.getAttributes.number, plane.ctx.gateway.groupOf(bucket, stream), bucket, stream),
  );
}

class GetExchange extends Exchange {
  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 200);
    res.writeHeader('content-type', JSON_TYPE);
    responder.end(res, reply.body ?? '{}');
    return 200;
  }
}

export function handlePutAttributes(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const { contentType, contentLength } = writeHeaders();
  if (contentType === undefined || contentType.trim() === '') {
    return plane.refuse(res, responder, 'bucketed', 'attrs', startedMs, 'MISSING_CONTENT_TYPE');
  }
  if (!isJson(contentType)) {
    const detail = 'Content-Type must be application/json';
    return plane.refuse(res, responder, 'bucketed', 'attrs', startedMs, 'INVALID_HEADER', detail);
  }
  const declared = declaredBytes(contentLength);
  const exchange = new PutExchange(plane, bucket, stream);
  exchange.open(res, responder, 'bucketed', 'attrs', startedMs);
  exchange.readBody(res, declared);
}

class PutExchange extends BodyExchange {
  readonly #bucket: string;
  readonly #stream: string;

  constructor(plane: Plane, bucket: string, stream: string) {
    super(plane);
    this.#bucket = bucket;
    this.#stream = stream;
    this.bytesMax = SENT_BYTES_MAX;
  }

  protected override tooLarge(): void {
    this.fail('INVALID_ATTRIBUTES', `the body exceeds ${SENT_BYTES_MAX} bytes`);
  }

  protected override bodyReady(body: Uint8Array): void {
    if (body.length === 0) return this.fail('INVALID_ATTRIBUTES', 'the body is empty; send {} to clear them');
    const request = newRequest();
    request.op = COMMANDS.setAttributes.number;
    request.command.kind = COMMANDS.setAttributes.number;
    request.command.bucket = this.#bucket;
    request.command.stream = this.#stream;
    request.command.attributes = body;
    request.group = this.plane.ctx.gateway.groupOf(this.#bucket, this.#stream);
    this.send(request);
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 204);
    res.endWithoutBody();
    return 204;
  }
}
