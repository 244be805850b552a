/** GET on a stream: catch-up reads here, live ones in live/. */
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../../protocol/reply.ts';
import { READ_NOW } from '../../protocol/request.ts';
import { ReadCoding } from '../coding.ts';
import type { Family, ReadParams, Target } from '../contract.ts';
import { Exchange } from '../exchange.ts';
import { resumeBehind } from '../live/event-id.ts';
import { startLongPoll } from '../live/long-poll.ts';
import { startSse } from '../live/sse.ts';
import type { Plane } from '../plane.ts';
import { parseReadQuery } from '../query.ts';
import { cacheOfRead } from '../read-cache.ts';
import { type Responder, readEtag, writeReadHeaders } from '../respond.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import { type Unsent, unsentOf } from '../unsent.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { QUERIES } from '../../protocol/operations.ts';

export function handleRead(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  family: Family,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const { settings, gateway } = plane.ctx;
  const parsed = parseReadQuery(req.getQuery(), settings.longPollTimeoutMs, req.getHeader('if-none-match'));
  if (!parsed.ok) return plane.refuse(res, responder, family, 'read', startedMs, 'INVALID_QUERY', parsed.reason);
  const { params, noBytes } = parsed.value;
  const group = gateway.groupOf(bucket, stream);
  if (params.live !== '') {
    const target: Target = { family, bucket, stream, group };
    if (params.live === 'long-poll') return startLongPoll(plane.ctx, res, target, params, responder);
    const resumed = resumeBehind(params, req.getHeader('last-event-id'));
    if (resumed !== undefined) return startSse(plane.ctx, res, target, resumed, responder);
    const detail = 'Last-Event-ID is not the id of an event of this URL';
    return plane.refuse(res, responder, family, 'sse_open', startedMs, 'INVALID_HEADER', detail);
  }
  const unsent = unsentOf(plane.ctx);
  if (unsent.full) return plane.refuse(res, responder, family, 'read', startedMs, 'ANSWERS_FULL');
  const coding = new ReadCoding(plane.ctx, params, bucket, stream);
  const exchange = new ReadExchange(plane, { params, noBytes, coding, unsent });
  exchange.open(res, responder, family, 'read', startedMs);
  const query = plane.streamQuery(QUERIES.read.number, group, bucket, stream);
  query.mode = params.mode;
  query.value = params.value;
  query.maxBytes = unsent.readBytes(params.maxBytes);
  query.maxRecords = params.maxRecords;
  query.readFlags = params.readFlags;
  query.topic = 0;
  exchange.send(query);
}

interface Reading {
  readonly params: ReadParams;
  readonly noBytes: boolean;
  readonly coding: ReadCoding;
  readonly unsent: Unsent;
}

class ReadExchange extends Exchange {
  readonly #params: ReadParams;
  readonly #noBytes: boolean;
  readonly #coding: ReadCoding;
  readonly #unsent: Unsent;

  constructor(plane: Plane, { params, noBytes, coding, unsent }: Reading) {
    super(plane);
    this.#params = params;
    this.#noBytes = noBytes;
    this.#coding = coding;
    this.#unsent = unsent;
  }

  /** Until the answer is compressed it counts as not yet come: who leaves meanwhile is forgotten when it is. */
  override onReply(reply: Reply): void {
    const isAnswered = reply.code === 0 && !this.#noBytes && this.res !== undefined;
    if (isAnswered && this.#coding.defers(reply, (answer) => super.onReply(answer))) return;
    super.onReply(reply);
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    if (this.#noBytes) stripBytes(reply);
    const params = this.#params;
    const coding = this.#coding;
    const tag = params.mode === READ_NOW ? undefined : readEtag(reply, params);
    const known = tag === undefined ? undefined : coding.known(tag);
    const status = known === undefined ? 200 : 304;
    responder.begin(res, status, cacheOfRead(params, reply));
    writeStoredType(res, shownContentType(reply));
    writeReadHeaders(res, reply, params);
    coding.writeHeaders(res, responder, reply);
    if (tag !== undefined) res.writeHeader('etag', known ?? coding.etag(tag));
    if (status === 304) res.endWithoutBody();
    else this.#end(res, reply);
    return status;
  }

  #end(res: UwsResponse, reply: Reply): void {
    const body = this.#coding.body(reply);
    if (body !== undefined) this.#unsent.end(res, body);
    else if (reply.has(REPLY_RECORDS)) res.end('[]');
    else res.end();
  }
}

/** max_bytes=0: the shard read at least one byte or record; answer as if it had stopped at the start. */
function stripBytes(reply: Reply): void {
  reply.body = undefined;
  if (reply.nextOffset === reply.startOffset) return;
  reply.nextOffset = reply.startOffset;
  reply.flags &= ~(REPLY_UP_TO_DATE | REPLY_CLOSED);
}
