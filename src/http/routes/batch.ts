/** POST /{bucket}/{stream}/append-batch: several appends with a result each. */
import { errorCode } from '../../base/errors.ts';
import { batchShape, frameCount } from '../../protocol/append-batch.ts';
import { REPLY_PRODUCER, REPLY_RECORDS, type Reply } from '../../protocol/reply.ts';
import { formatOffset } from '../../protocol/header-values.ts';
import { newRequest } from '../../protocol/request.ts';
import { BodyExchange } from '../body.ts';
import { writeHeaders, declaredBytes, fillCommand } from '../headers.ts';
import type { Plane } from '../plane.ts';
import { JSON_TYPE, RECORD_EXTENSION, type Responder } from '../respond.ts';
import { DEFAULT_CONTENT_TYPE } from '../stored-type.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { COMMANDS } from '../../protocol/operations.ts';

export function handleBatch(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const headers = writeHeaders();
  // Of single appends only; a batch takes no part in them.
  headers.streamSeq = undefined;
  headers.streamClosed = undefined;
  headers.recordMatch = undefined;
  if (headers.ifMatch !== '' || headers.ifNoneMatch !== '') {
    const detail = 'If-Match and If-None-Match belong to single appends';
    return plane.refuse(res, responder, 'bucketed', 'batch', startedMs, 'INVALID_HEADER', detail);
  }
  const exchange = new BatchExchange(plane, wantsMinimal(req.getHeader('prefer')));
  const { command } = exchange.request;
  const refusal = fillCommand(headers, command, false);
  if (refusal !== undefined) {
    return plane.refuse(res, responder, 'bucketed', 'batch', startedMs, refusal.code, refusal.detail);
  }
  command.bucket = bucket;
  command.stream = stream;
  if (command.contentType === '') command.contentType = DEFAULT_CONTENT_TYPE;
  const declared = declaredBytes(headers.contentLength);
  exchange.open(res, responder, 'bucketed', 'batch', startedMs);
  exchange.readBody(res, declared);
}

/** `Prefer: return=minimal` anywhere in the list. */
function wantsMinimal(prefer: string): boolean {
  return prefer.split(',').some((item) => item.trim().toLowerCase() === 'return=minimal');
}

class BatchExchange extends BodyExchange {
  readonly request = newRequest();
  readonly #minimal: boolean;
  #frames = 0;

  constructor(plane: Plane, minimal: boolean) {
    super(plane);
    this.#minimal = minimal;
    this.request.op = COMMANDS.appendBatch.number;
    this.request.command.kind = COMMANDS.appendBatch.number;
  }

  protected override bodyReady(body: Uint8Array): void {
    const shape = batchShape(body);
    if (shape === 'too-many') return this.fail('TOO_MANY_FRAMES');
    if (shape === 'empty') return this.fail('INVALID_BATCH', 'it holds no frame');
    if (shape === 'truncated') return this.fail('INVALID_BATCH', 'the last frame is cut short');
    const { command } = this.request;
    this.#frames = frameCount(body);
    command.payload = body;
    this.request.group = this.plane.ctx.gateway.groupOf(command.bucket, command.stream);
    this.send(this.request);
    command.payload = undefined;
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    // The frames of a batch without a producer are refused one by one, also where none of them came in.
    if (errorCode(reply.code) === 'QUOTA_EXCEEDED' && !reply.has(REPLY_PRODUCER)) {
      responder.begin(res, 200);
      res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
      res.writeHeader('content-type', JSON_TYPE);
      responder.end(res, `[${Array.from({ length: this.#frames }, () => '{"status":429}').join(',')}]`);
      return 200;
    }
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    const withRecords = reply.has(REPLY_RECORDS) && reply.recordNext > reply.recordStart;
    const minimal = this.#minimal && reply.c === 0 && !withRecords;
    const status = minimal ? 204 : 200;
    responder.begin(res, status);
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    if (reply.has(REPLY_PRODUCER)) {
      res.writeHeader('producer-epoch', String(reply.a));
      res.writeHeader('producer-seq', String(reply.b));
    }
    if (withRecords) res.writeHeader('stream-extensions', RECORD_EXTENSION);
    if (minimal) {
      res.endWithoutBody();
      return status;
    }
    res.writeHeader('content-type', JSON_TYPE);
    responder.end(res, reply.body ?? '[]');
    return status;
  }
}
