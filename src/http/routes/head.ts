/** HEAD and DELETE on a stream. */
import { conditionText } from '../../protocol/condition.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { formatOffset, formatRfc3339 } from '../../protocol/header-values.ts';
import { REPLY_CLOSED, REPLY_RECORDS, Reply } from '../../protocol/reply.ts';
import { newRequest } from '../../protocol/request.ts';
import { writeHeadVary } from '../read-response.ts';
import type { ReplyRenderer, RequestContext } from '../request.ts';
import { RECORD_EXTENSION } from '../response.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import { TOO_MANY_TAGS, writeHeaders } from '../headers.ts';
import type { UwsResponse } from '../uws.ts';

export function handleHead(call: RequestContext): void {
  call.send(call.streamQuery(QUERIES.head.number), HEAD);
}

const HEAD: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    if (reply.code !== 0) return responder.refusal(res, call.family, reply);
    responder.begin(res, 200);
    writeStoredType(res, shownContentType(reply));
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    res.writeHeader('stream-up-to-date', 'true');
    const { floor, tag, hotStart, snapshot, ttlSeconds, expiresAtMs } = QUERIES.head.result.read(reply);
    res.writeHeader('stream-retained-offset', String(floor));
    writeHeadVary(res, responder, reply);
    if (tag !== '') res.writeHeader('etag', `"${tag}"`);
    if (hotStart >= 0) res.writeHeader('stream-cold-hot-start-offset', String(hotStart));
    if (snapshot !== undefined) {
      res.writeHeader('stream-snapshot-offset', formatOffset(snapshot.offset));
      res.writeHeader('stream-snapshot-digest', snapshot.digest);
    }
    if (ttlSeconds >= 0) res.writeHeader('stream-ttl', String(ttlSeconds));
    if (expiresAtMs >= 0) res.writeHeader('stream-expires-at', formatRfc3339(expiresAtMs));
    if (reply.has(REPLY_CLOSED)) res.writeHeader('stream-closed', 'true');
    if (reply.has(REPLY_RECORDS)) {
      res.writeHeader('stream-record-first', String(reply.recordFirst));
      res.writeHeader('stream-record-next', String(reply.recordNext));
      res.writeHeader('stream-extensions', RECORD_EXTENSION);
    }
    // No Content-Length: the size of the GET's answer depends on its query, and 0 would be a lie.
    res.endWithoutBody();
    return 200;
  },
};

export function handleDelete(call: RequestContext): void {
  const headers = writeHeaders();
  const condition = conditionText(headers.ifMatch, headers.ifNoneMatch);
  if (condition === undefined) return call.refuse('INVALID_HEADER', TOO_MANY_TAGS);
  const request = newRequest();
  request.op = COMMANDS.deleteStream.number;
  request.command.kind = COMMANDS.deleteStream.number;
  request.command.bucket = call.bucket;
  request.command.stream = call.stream;
  request.command.condition = condition;
  request.group = call.gateway.groupOf(call.bucket, call.stream);
  return call.send(request, DELETE);
}

/** The source of a fork is told that the fork is gone; a client waits for it so long. */
const TELL_MS = 2000;

/** 204 or the refusal. */
const DELETE: ReplyRenderer = {
  intercept(call: RequestContext, reply: Reply): boolean {
    const gone = reply.code === 0 ? COMMANDS.deleteStream.result.read(reply) : undefined;
    if (gone === undefined) return false;
    // What is told to the source takes its time, and the reply is used again.
    const answer = Object.assign(new Reply(), reply);
    let answered = false;
    const finish = (): void => {
      if (answered) return;
      answered = true;
      clearTimeout(late);
      call.deliver(answer);
    };
    const late = setTimeout(finish, TELL_MS);
    call.server.ctx.forks.tell(call.gateway.groupOf(call.bucket, call.stream), gone, finish);
    return true;
  },

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    if (reply.code !== 0) return responder.refusal(res, call.family, reply);
    responder.begin(res, 204);
    res.endWithoutBody();
    return 204;
  },
};
