/** POST on a stream: append, append and close, close. The hot path; see exchange.ts for why objects are kept. */
import { formatOffset } from '../../protocol/header-values.ts';
import { REPLY_CLOSED, REPLY_DUPLICATE, REPLY_PRODUCER, REPLY_RECORDS, type Reply } from '../../protocol/reply.ts';
import { errorNumber } from '../../base/errors.ts';
import { newRequest } from '../../protocol/request.ts';
import { BodyExchange } from '../body.ts';
import type { Family } from '../contract.ts';
import { type WriteHeaders, declaredBytes, fillCommand, writeHeaders } from '../headers.ts';
import type { Plane } from '../plane.ts';
import { RECORD_EXTENSION, type Responder } from '../respond.ts';
import type { UwsResponse } from '../uws.ts';
import { COMMANDS } from '../../protocol/operations.ts';

const OK = 0;
const STREAM_CLOSED = errorNumber('STREAM_CLOSED');
/** Objects kept for reuse: a few hundred bytes each; more appends than this at once are rare. */
const KEPT_MAX = 1024;

/** Finished objects of one plane. */
export class AppendPool {
  readonly #kept: AppendExchange[] = [];

  take(plane: Plane): AppendExchange {
    return this.#kept.pop() ?? new AppendExchange(plane, this);
  }

  give(exchange: AppendExchange): void {
    if (this.#kept.length < KEPT_MAX) this.#kept.push(exchange);
  }
}

export function handleAppend(
  plane: Plane,
  pool: AppendPool,
  res: UwsResponse,
  responder: Responder,
  family: Family,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const headers = writeHeaders();
  const exchange = pool.take(plane);
  const refusal = exchange.prepare(headers, bucket, stream);
  if (refusal !== undefined) {
    pool.give(exchange);
    return plane.refuse(res, responder, family, 'append', startedMs, refusal.code, refusal.detail);
  }
  const declared = declaredBytes(headers.contentLength);
  exchange.open(res, responder, family, 'append', startedMs);
  exchange.readBody(res, declared);
}

export class AppendExchange extends BodyExchange {
  readonly #pool: AppendPool;
  readonly #request = newRequest();
  #closeOnly = false;

  constructor(plane: Plane, pool: AppendPool) {
    super(plane);
    this.#pool = pool;
    this.#request.op = COMMANDS.append.number;
    this.#request.command.kind = COMMANDS.append.number;
  }

  prepare(headers: WriteHeaders, bucket: string, stream: string): ReturnType<typeof fillCommand> {
    const command = this.#request.command;
    command.bucket = bucket;
    command.stream = stream;
    return fillCommand(headers, command, false);
  }

  protected override bodyReady(body: Uint8Array): void {
    const request = this.#request;
    const command = request.command;
    this.#closeOnly = body.length === 0;
    if (body.length === 0) {
      if (!command.close) return this.fail('EMPTY_BODY');
      this.operation = 'close';
      // A type has no meaning without bytes; a record match has: it makes the close conditional.
      command.contentType = '';
      command.payload = undefined;
    } else {
      if (command.contentType === '') return this.fail('MISSING_CONTENT_TYPE');
      command.payload = body;
    }
    request.group = this.plane.ctx.gateway.groupOf(command.bucket, command.stream);
    this.send(request);
    command.payload = undefined;
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== OK) {
      // Closing what is closed: an error on the bucketed routes, done already on the flat ones, unless a producer asks:
      // somebody else closed the stream, which it has to know.
      const closedAlready =
        this.#closeOnly && this.family === 'flat' && reply.code === STREAM_CLOSED && !reply.has(REPLY_PRODUCER);
      if (!closedAlready) return responder.refusal(res, this.family, reply);
      responder.begin(res, 204);
      res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
      res.writeHeader('stream-closed', 'true');
      res.endWithoutBody();
      return 204;
    }
    // An accepted append of a producer has something to say: 200; a duplicate and everything else 204. On the flat
    // routes a producer's close-only is 204 as well.
    const fresh = reply.has(REPLY_PRODUCER) && !reply.has(REPLY_DUPLICATE);
    const status = fresh && !(this.#closeOnly && this.family === 'flat') ? 200 : 204;
    responder.beginWith(res, status === 200 ? '200 OK' : '204 No Content');
    writeWriteHeaders(res, reply);
    if (status === 200) res.end();
    else res.endWithoutBody();
    return status;
  }

  protected override finished(): void {
    super.finished();
    // While chunks may still come, uWebSockets.js holds the data callback: such an object must not serve another request.
    if (this.bodyEnded) this.#pool.give(this);
  }
}

/** Headers of every accepted write: position, producer echo, closure, created records. */
export function writeWriteHeaders(res: UwsResponse, reply: Reply): void {
  res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
  // Most replies carry none of the rest.
  if (reply.flags === 0) return;
  if (reply.has(REPLY_PRODUCER)) {
    res.writeHeader('producer-epoch', String(reply.a));
    res.writeHeader('producer-seq', String(reply.b));
  }
  if (reply.has(REPLY_CLOSED)) res.writeHeader('stream-closed', 'true');
  if (reply.has(REPLY_RECORDS)) {
    res.writeHeader('stream-record-start', String(reply.recordStart));
    res.writeHeader('stream-record-next', String(reply.recordNext));
    res.writeHeader('stream-extensions', RECORD_EXTENSION);
  }
}
