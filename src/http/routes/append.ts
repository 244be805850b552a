/** POST on a stream: append, append and close, close, batches. The hot path; request.ts says why objects are kept. */
import { type ErrorCode, type RefusalReason, errorCode, errorNumber } from '../../base/errors.ts';
import { declaredBytes, fillAppend } from '../headers.ts';
import type { BodyConsumer, ReplyRenderer, RequestContext } from '../request.ts';
import { JSON_TYPE, RECORD_EXTENSION } from '../response.ts';
import type { HttpServerContext } from '../server-context.ts';
import { DEFAULT_CONTENT_TYPE, type HeaderWriter } from '../../access/stored-type.ts';
import type { UwsResponse } from '../uws.ts';
import type { AppendFields } from '../../protocol/append.ts';
import { batchShape, frameCount } from '../../protocol/append-batch.ts';
import { formatOffset } from '../../protocol/header-values.ts';
import { COMMANDS } from '../../protocol/operations.ts';
import {
  producerEpoch,
  producerSeq,
  REPLY_CLOSED,
  REPLY_DUPLICATE,
  REPLY_PRODUCER,
  REPLY_RECORDS,
  type Reply,
} from '../../protocol/reply.ts';
import { beginCommand } from '../../protocol/request.ts';

const STREAM_CLOSED = errorNumber('STREAM_CLOSED');

export function handleAppend(call: RequestContext): void {
  const { headers } = call;
  const refusal = fillAppend(headers, beginCommand(call.request, COMMANDS.append, call));
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  return call.readBody(declaredBytes(headers.contentLength), APPEND);
}

/** Puts the body of an append, perhaps an empty one, behind its other fields. */
export function completeAppend(
  server: HttpServerContext,
  command: AppendFields,
  body: Uint8Array,
): ErrorCode | undefined {
  if (body.length === 0) {
    if (!command.close) return 'EMPTY_BODY';
    // A type has no meaning without bytes; a record match has: it makes the close conditional.
    command.contentType = '';
    command.payload = undefined;
  } else {
    if (command.contentType === '') return 'MISSING_CONTENT_TYPE';
    command.payload = body;
  }
  return server.takesCondition(command.condition, command.expectedOffset) ? undefined : 'UPGRADE_UNFINISHED';
}

/** One for all appends: what differs is in the context, whose operation is `close` when there is no body. */
const APPEND: BodyConsumer & ReplyRenderer = {
  consume(call: RequestContext, body: Uint8Array): void {
    const { request, server } = call;
    const command = COMMANDS.append.request.fields(request.command);
    if (body.length === 0 && command.close) call.operation = 'close';
    const fault = completeAppend(server, command, body);
    if (fault !== undefined) return call.refuse(fault);
    const closesAt = body.length === 0 && command.expectedOffset >= 0;
    call.send(request, closesAt ? closingAt(command.expectedOffset) : APPEND, server.writes);
    call.releaseRequest();
  },

  /**
   * Closing what is closed: an error on the bucketed routes, done already on the flat ones, unless a producer
   * asks: another writer closed the stream, which it has to know.
   */
  renderRefusal(call: RequestContext, res: UwsResponse, reply: Reply): number | undefined {
    if (!closesOnly(call) || reply.code !== STREAM_CLOSED || reply.has(REPLY_PRODUCER)) return undefined;
    return call.responder.closed(res, reply);
  },

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    // An accepted append of a producer has something to say: 200; a duplicate and everything else 204. On the flat
    // routes a producer's close-only is 204 as well.
    const fresh = reply.has(REPLY_PRODUCER) && !reply.has(REPLY_DUPLICATE);
    const status = fresh && !closesOnly(call) ? 200 : 204;
    responder.beginWritten(res, status, reply.nextOffset);
    writeOutcome(res, reply);
    if (status === 200) res.end();
    else res.endWithoutBody();
    return status;
  },
};

/** Closing at an offset is done already only where the stream was closed there. */
function closingAt(offset: number): ReplyRenderer {
  return {
    ...APPEND,
    renderRefusal: (call, res, reply) =>
      reply.nextOffset === offset ? APPEND.renderRefusal?.(call, res, reply) : undefined,
  };
}

function closesOnly({ operation, family }: RequestContext): boolean {
  return operation === 'close' && family === 'flat';
}

/** Headers of every accepted write: position, producer echo, closure, created records. */
export function writeWriteHeaders(res: UwsResponse, reply: Reply): void {
  res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  writeOutcome(res, reply);
}

/** Writes the headers that follow the position. */
export function writeOutcome(res: HeaderWriter, reply: Reply): void {
  // Most replies have none of these headers.
  if (reply.flags === 0) return;
  if (reply.has(REPLY_PRODUCER)) {
    res.writeHeader('producer-epoch', String(producerEpoch(reply)));
    res.writeHeader('producer-seq', String(producerSeq(reply)));
  }
  if (reply.has(REPLY_CLOSED)) res.writeHeader('stream-closed', 'true');
  if (reply.has(REPLY_RECORDS)) {
    res.writeHeader('stream-record-start', String(reply.recordStart));
    res.writeHeader('stream-record-next', String(reply.recordNext));
    res.writeHeader('stream-extensions', RECORD_EXTENSION);
  }
}

/** POST /{bucket}/{stream}/append-batch: several appends with a result each. */
export function handleBatch(call: RequestContext): void {
  const headers = call.headers;
  // These headers belong to single appends only.
  headers.streamSeq = undefined;
  headers.streamClosed = undefined;
  headers.recordMatch = undefined;
  const command = beginCommand(call.request, COMMANDS.appendBatch, call);
  const refusal = fillAppend(headers, command);
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  return call.readBody(declaredBytes(headers.contentLength), new Batch(preferredReturn(call.req.getHeader('prefer'))));
}

/** Puts the frames of a batch behind its other fields. */
export function completeBatch(
  server: HttpServerContext,
  command: AppendFields,
  body: Uint8Array,
): RefusalReason | undefined {
  const shape = batchShape(body);
  if (shape === 'too-many') return { code: 'TOO_MANY_FRAMES', detail: '' };
  if (shape === 'empty') return { code: 'INVALID_BATCH', detail: 'it holds no frame' };
  if (shape === 'truncated') return { code: 'INVALID_BATCH', detail: 'the last frame is cut short' };
  if (command.contentType === '') command.contentType = DEFAULT_CONTENT_TYPE;
  command.payload = body;
  if (server.takesCondition('', command.expectedOffset)) return undefined;
  return { code: 'UPGRADE_UNFINISHED', detail: '' };
}

/** The frames of a batch without a producer are refused one by one, also where none of them came in. */
export function resultsBeyondQuota(reply: Reply, frames: number): string | undefined {
  if (errorCode(reply.code) !== 'QUOTA_EXCEEDED' || reply.has(REPLY_PRODUCER)) return undefined;
  return `[${Array.from({ length: frames }, () => '{"status":429}').join(',')}]`;
}

type Return = 'minimal' | 'representation';

/** `Prefer: return=minimal` anywhere in the list. */
function preferredReturn(prefer: string): Return {
  const isMinimal = prefer.split(',').some((item) => item.trim().toLowerCase() === 'return=minimal');
  return isMinimal ? 'minimal' : 'representation';
}

class Batch implements BodyConsumer, ReplyRenderer {
  readonly #wanted: Return;
  #frames = 0;

  constructor(wanted: Return) {
    this.#wanted = wanted;
  }

  consume(call: RequestContext, body: Uint8Array): void {
    const { request } = call;
    const command = COMMANDS.appendBatch.request.fields(request.command);
    const fault = completeBatch(call.server, command, body);
    if (fault !== undefined) return call.refuse(fault.code, fault.detail);
    this.#frames = frameCount(body);
    call.send(request, this, call.server.writes);
    command.payload = undefined;
  }

  renderRefusal({ responder }: RequestContext, res: UwsResponse, reply: Reply): number | undefined {
    const results = resultsBeyondQuota(reply, this.#frames);
    if (results === undefined) return undefined;
    responder.begin(res, 200);
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    res.writeHeader('content-type', JSON_TYPE);
    responder.end(res, results);
    return 200;
  }

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    const withRecords = reply.has(REPLY_RECORDS) && reply.recordNext > reply.recordStart;
    const minimal =
      this.#wanted === 'minimal' && COMMANDS.appendBatch.result.read(reply).framesRefused === 0 && !withRecords;
    const status = minimal ? 204 : 200;
    responder.begin(res, status);
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    if (reply.has(REPLY_PRODUCER)) {
      res.writeHeader('producer-epoch', String(producerEpoch(reply)));
      res.writeHeader('producer-seq', String(producerSeq(reply)));
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
