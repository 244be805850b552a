/** GET on a stream: catch-up reads here, live ones in live/. */
import { encodeUtf8 } from '../../base/utf8.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../../protocol/reply.ts';
import { READ_NOW } from '../../protocol/read-fields.ts';
import { fillRead, limitRead } from '../../protocol/queries/read.ts';
import type { ReadParams } from '../context.ts';
import { startLongPoll } from '../live/long-poll.ts';
import { startSse } from '../live/sse.ts';
import { type ReadQuery, parseReadQuery, resumeBehind } from '../query.ts';
import { ReadCoding, readEtag } from '../read-response.ts';
import type { ReplyRenderer, RequestContext } from '../request.ts';
import type { UwsResponse } from '../uws.ts';

export function handleRead(call: RequestContext): void {
  const { req, server } = call;
  const parsed = parseReadQuery(req.getQuery(), server.settings.longPollTimeoutMs, req.getHeader('if-none-match'));
  if (!parsed.ok) return call.refuse('INVALID_QUERY', parsed.reason);
  const { params } = parsed.value;
  if (params.live !== '') return handleLiveRead(call, params);
  const { backpressure } = server;
  if (backpressure.full) return call.refuse('ANSWERS_FULL');
  const { query } = server;
  fillRead(query, call, params, 0);
  limitRead(query, backpressure.readBytes(params.maxBytes));
  return call.send(query, new Read(call, parsed.value));
}

function handleLiveRead(call: RequestContext, params: ReadParams): void {
  if (params.live === 'long-poll') return startLongPoll(call, params);
  const resumed = resumeBehind(params, call.req.getHeader('last-event-id'));
  if (resumed !== undefined) return startSse(call, resumed);
  call.operation = 'sse_open';
  return call.refuse('INVALID_HEADER', 'Last-Event-ID is not the id of an event of this URL');
}

class Read implements ReplyRenderer {
  readonly #params: ReadParams;
  readonly #noBytes: boolean;
  readonly #coding: ReadCoding;

  constructor(call: RequestContext, { params, noBytes }: ReadQuery) {
    this.#params = params;
    this.#noBytes = noBytes;
    this.#coding = new ReadCoding(call, params);
  }

  /** Until the answer is compressed it counts as not yet come: who leaves meanwhile is forgotten when it is. */
  intercept(call: RequestContext, reply: Reply): boolean {
    if (reply.code !== 0 || this.#noBytes || call.isOver) return false;
    return this.#coding.defers(reply, (answer) => call.deliver(answer));
  }

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    completeRead(reply, this.#noBytes);
    const params = this.#params;
    const tag = params.mode === READ_NOW ? undefined : readEtag(reply, params);
    return this.#coding.write(call, res, reply, { tag });
  }
}

const NO_RECORDS = encodeUtf8('[]');

/**
 * `noBytes`: max_bytes=0, for which the shard read at least one byte or record; answer as if it had stopped at the start. A JSON
 * stream without records has an empty array.
 */
export function completeRead(reply: Reply, noBytes: boolean): void {
  if (noBytes) {
    reply.body = undefined;
    if (reply.nextOffset !== reply.startOffset) reply.flags &= ~(REPLY_UP_TO_DATE | REPLY_CLOSED);
    reply.nextOffset = reply.startOffset;
  }
  if (reply.has(REPLY_RECORDS)) reply.body ??= NO_RECORDS;
}
