/** Answers to queries about one group, from local applied state. */
import { errorNumber } from '../base/errors.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { refuse } from '../stream/append.ts';
import type { Head } from '../stream/head.ts';
import { planRead } from '../stream/read.ts';
import type { State } from '../stream/state.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../wire/reply.ts';
import { OP_GET_ATTRIBUTES, OP_HEAD, OP_READ, type Query } from '../wire/request.ts';
import type { Watchers } from './watchers.ts';

const NO_ATTRIBUTES = encodeUtf8('{}');

/**
 * Fills the reply to READ, HEAD or GET_ATTRIBUTES; its body is valid until the next one. Returns the stream when it was a read
 * that counts as use of its lifetime.
 */
export function answerQuery(
  state: State,
  watchers: Watchers,
  query: Query,
  nowMs: number,
  reply: Reply,
): Head | undefined {
  const head = state.find(query.bytes, query.keyAt, query.keyBytes);
  if (head === undefined || head.expired(nowMs)) {
    refuse(reply, 'STREAM_NOT_FOUND');
    return undefined;
  }
  if (query.op === OP_READ) {
    answerRead(state, watchers, head, query, reply);
    return head;
  }
  if (query.op === OP_HEAD) describeHead(head, reply);
  else if (query.op === OP_GET_ATTRIBUTES) reply.body = state.attributes(head) ?? NO_ATTRIBUTES;
  else reply.code = errorNumber('INTERNAL');
  return undefined;
}

function answerRead(state: State, watchers: Watchers, head: Head, query: Query, reply: Reply): void {
  const plan = planRead(state, head, query, reply);
  if (plan === undefined) return;
  if (query.topic !== 0 && !head.closed) watchers.watch(head, query.topic);
  reply.body = plan.body;
}

function describeHead(head: Head, reply: Reply): void {
  reply.contentType = head.shownContentType;
  reply.startOffset = head.floor;
  reply.nextOffset = head.tail;
  reply.flags |= REPLY_UP_TO_DATE;
  reply.a = head.ttlSeconds;
  reply.b = head.expiresAtMs;
  reply.c = head.incarnation;
  if (head.closed) reply.flags |= REPLY_CLOSED;
  if (!head.json) return;
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordStart = head.recordNext;
  reply.recordNext = head.recordNext;
}
