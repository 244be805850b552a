/** GET on a stream: catch-up reads here, live ones in live/. */
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../wire/reply.ts';
import { OP_READ, READ_NOW } from '../wire/request.ts';
import type { Family, ReadParams, Target } from './contract.ts';
import { Exchange } from './exchange.ts';
import { resumeBehind } from './live/event-id.ts';
import { startLongPoll } from './live/long-poll.ts';
import { startSse } from './live/sse.ts';
import type { Plane } from './plane.ts';
import { parseReadQuery } from './query.ts';
import { cacheOfRead } from './read-cache.ts';
import { type Responder, etagMatches, readEtag, writeReadHeaders } from './respond.ts';
import { shownContentType, writeStoredType } from './stored-type.ts';
import { type Unsent, unsentOf } from './unsent.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

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
  const exchange = new ReadExchange(plane, params, noBytes, unsent);
  exchange.open(res, responder, family, 'read', startedMs);
  const query = plane.streamQuery(OP_READ, group, bucket, stream);
  query.mode = params.mode;
  query.value = params.value;
  query.maxBytes = unsent.readBytes(params.maxBytes);
  query.maxRecords = params.maxRecords;
  query.readFlags = params.readFlags;
  query.topic = 0;
  exchange.send(query);
}

class ReadExchange extends Exchange {
  readonly #params: ReadParams;
  readonly #noBytes: boolean;
  readonly #unsent: Unsent;

  constructor(plane: Plane, params: ReadParams, noBytes: boolean, unsent: Unsent) {
    super(plane);
    this.#unsent = unsent;
    this.#params = params;
    this.#noBytes = noBytes;
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    if (this.#noBytes) stripBytes(reply);
    const params = this.#params;
    const etag = params.mode === READ_NOW ? '' : readEtag(reply, params);
    const status = etag !== '' && etagMatches(params.ifNoneMatch, etag) ? 304 : 200;
    responder.begin(res, status, cacheOfRead(params, reply));
    writeStoredType(res, shownContentType(reply));
    writeReadHeaders(res, reply, params);
    if (etag !== '') res.writeHeader('etag', etag);
    if (status === 304) res.endWithoutBody();
    else this.#end(res, reply);
    return status;
  }

  #end(res: UwsResponse, reply: Reply): void {
    if (reply.body !== undefined) this.#unsent.end(res, reply.body);
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
