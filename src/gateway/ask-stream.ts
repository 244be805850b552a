/** Requests to the shards as promises, for code off the hot path. */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import { decodeUtf8 } from '../base/utf8.ts';
import type { ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import { type Request, newRequest } from '../protocol/request.ts';

/** What is kept of a reply. */
export interface Answer {
  readonly code: ErrorCode;
  readonly flags: number;
  readonly startOffset: number;
  readonly nextOffset: number;
  readonly recordFirst: number;
  readonly recordStart: number;
  readonly recordNext: number;
  readonly a: number;
  readonly c: number;
  readonly text: string;
  /** Empty when there is none. */
  readonly body: string;
}

function keep(reply: Reply): Answer {
  const { flags, startOffset, nextOffset, recordFirst, recordStart, recordNext, a, c, text } = reply;
  const body = reply.body === undefined ? '' : decodeUtf8(reply.body);
  return {
    code: errorCode(reply.code),
    flags,
    startOffset,
    nextOffset,
    recordFirst,
    recordStart,
    recordNext,
    a,
    c,
    text,
    body,
  };
}

const BUSY: Answer = {
  code: 'SHARD_BUSY',
  flags: 0,
  startOffset: 0,
  nextOffset: 0,
  recordFirst: 0,
  recordStart: 0,
  recordNext: 0,
  a: 0,
  c: 0,
  text: '',
  body: '',
};

/**
 * `fill` sets what the request asks for; a full mailbox answers SHARD_BUSY. `atOnce` gets the answer in its place among the events that
 * come from the shard; the promise is settled behind the events that came together with it.
 */
export function ask(
  gateway: ShardGateway,
  fill: (request: Request) => void,
  shard?: number,
  atOnce?: (answer: Answer) => void,
): Promise<Answer> {
  const request = newRequest();
  fill(request);
  return new Promise((resolve) => {
    const onReply = (reply: Reply): void => {
      const answer = keep(reply);
      atOnce?.(answer);
      resolve(answer);
    };
    const sent = gateway.send(request, { onReply }, shard);
    if (!sent) resolve(BUSY);
  });
}

/** About one stream: sets its group and name. */
export function askStream(
  gateway: ShardGateway,
  bucket: string,
  stream: string,
  fill: (request: Request) => void,
): Promise<Answer> {
  return ask(gateway, (request) => {
    request.group = gateway.groupOf(bucket, stream);
    request.command.bucket = bucket;
    request.command.stream = stream;
    fill(request);
  });
}
