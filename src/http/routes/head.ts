/** HEAD and DELETE on a stream. */
import { conditionText } from '../../protocol/condition.ts';
import { formatOffset, formatRfc3339 } from '../../protocol/header-values.ts';
import { REPLY_CLOSED, REPLY_RECORDS, Reply } from '../../protocol/reply.ts';
import { newRequest } from '../../protocol/request.ts';
import { writeHeadVary } from '../coding.ts';
import type { Family } from '../contract.ts';
import { Exchange } from '../exchange.ts';
import type { Plane } from '../plane.ts';
import { RECORD_EXTENSION, type Responder } from '../respond.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import { TOO_MANY_TAGS, writeHeaders } from '../headers.ts';
import type { UwsResponse } from '../uws.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';

export function handleHead(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  family: Family,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const exchange = new HeadExchange(plane);
  exchange.open(res, responder, family, 'head', startedMs);
  exchange.send(plane.streamQuery(QUERIES.head.number, plane.ctx.gateway.groupOf(bucket, stream), bucket, stream));
}

class HeadExchange extends Exchange {
  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
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
  }
}

export function handleDelete(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  family: Family,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const headers = writeHeaders();
  const condition = conditionText(headers.ifMatch, headers.ifNoneMatch);
  if (condition === undefined) {
    return plane.refuse(res, responder, family, 'delete', startedMs, 'INVALID_HEADER', TOO_MANY_TAGS);
  }
  const group = plane.ctx.gateway.groupOf(bucket, stream);
  const exchange = new DeleteExchange(plane, group);
  exchange.open(res, responder, family, 'delete', startedMs);
  const request = newRequest();
  request.op = COMMANDS.deleteStream.number;
  request.command.kind = COMMANDS.deleteStream.number;
  request.command.bucket = bucket;
  request.command.stream = stream;
  request.command.condition = condition;
  request.group = group;
  exchange.send(request);
}

/** The source of a fork is told that the fork is gone; a client waits for it so long. */
const TELL_MS = 2000;

/** 204 or the refusal. */
class DeleteExchange extends Exchange {
  readonly #group: number;

  constructor(plane: Plane, group: number) {
    super(plane);
    this.#group = group;
  }

  override onReply(reply: Reply): void {
    if (reply.code !== 0 || reply.b !== 1) return super.onReply(reply);
    // What is told to the source takes its time, and the reply is used again.
    const answer = Object.assign(new Reply(), reply);
    let answered = false;
    const finish = (): void => {
      if (answered) return;
      answered = true;
      clearTimeout(late);
      super.onReply(answer);
    };
    const late = setTimeout(finish, TELL_MS);
    return this.plane.ctx.forks.tell(this.#group, reply, finish);
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 204);
    res.endWithoutBody();
    return 204;
  }
}
