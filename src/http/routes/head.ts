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
    res.writeHeader('stream-retained-offset', String(reply.startOffset));
    const [tag, hotStart, snapshotOffset, snapshotDigest] = reply.text.split(' ');
    writeHeadVary(res, responder, reply);
    if (tag !== undefined && tag !== '') res.writeHeader('etag', `"${tag}"`);
    if (hotStart !== undefined && hotStart !== '') res.writeHeader('stream-cold-hot-start-offset', hotStart);
    if (snapshotDigest !== undefined) {
      res.writeHeader('stream-snapshot-offset', formatOffset(Number(snapshotOffset)));
      res.writeHeader('stream-snapshot-digest', snapshotDigest);
    }
    if (reply.a >= 0) res.writeHeader('stream-ttl', String(reply.a));
    if (reply.b >= 0) res.writeHeader('stream-expires-at', formatRfc3339(reply.b));
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
    if (reply.code !== 0 || reply.b !== 1) return false;
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
    call.server.ctx.forks.tell(call.gateway.groupOf(call.bucket, call.stream), reply, finish);
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
