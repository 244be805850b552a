/** Answers to queries about one group, from local applied state. */
import { errorNumber } from '../base/errors.ts';
import { toHex } from '../base/hex.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { refuse, refuseAbsent, tagOf } from '../stream/operations/append.ts';
import { gcOfBucket } from '../stream/cold/objects.ts';
import type { Head } from '../stream/core/head.ts';
import { planRead } from '../stream/operations/read.ts';
import { published } from '../stream/operations/publish.ts';
import type { State } from '../stream/core/state.ts';
import { isOwnObject } from '../protocol/object-key.ts';
import { REPLY_CLOSED, REPLY_RECORDS, REPLY_UP_TO_DATE, type Reply } from '../protocol/reply.ts';
import { READ_FLAG_AWAIT, READ_FLAG_NO_TOUCH } from '../protocol/queries/read.ts';
import type { Query } from '../protocol/request.ts';
import type { Watchers } from './watchers.ts';
import { type QueriesOf, byNumber, QUERIES } from '../protocol/operations.ts';

const NO_ATTRIBUTES = encodeUtf8('{}');
const NO_BYTES = new Uint8Array(0);

/** Answers a query about one stream. Returns the stream when the query renews its lifetime. */
type AnswerStream = (asked: Asked, head: Head, reply: Reply) => Head | undefined;
type AnswerGroup = (asked: Asked, reply: Reply) => void;

/** The context of a query. One object per group, refilled for each query. */
export interface Asked {
  state: State;
  readonly watchers: Watchers;
  query: Query;
  nowMs: number;
}

const ABOUT_STREAM = byNumber<AnswerStream>({
  read: answerRead,
  head: describeHead,
  getAttributes: showAttributes,
  snapshot: answerSnapshot,
} satisfies Record<QueriesOf<'stream'>, AnswerStream>);

const ABOUT_GROUP = byNumber<AnswerGroup>({
  bucketGarbage: answerBucketGarbage,
  observe: ({ state, watchers, query, nowMs }, reply) => watchers.observer.handle(state, query, nowMs, reply),
} satisfies Record<QueriesOf<'group'>, AnswerGroup>);

/**
 * Fills the reply to a query about a group or one of its streams; its body is valid until the next one. Returns the
 * stream when the query renews its lifetime.
 */
export function answerQuery(asked: Asked, reply: Reply): Head | undefined {
  const { state, query, nowMs } = asked;
  const aboutGroup = ABOUT_GROUP[query.op];
  if (aboutGroup !== undefined) {
    aboutGroup(asked, reply);
    return undefined;
  }
  const aboutStream = ABOUT_STREAM[query.op];
  if (aboutStream === undefined) {
    reply.code = errorNumber('INTERNAL');
    return undefined;
  }
  const head = state.find(query.bytes, query.keyAt, query.keyBytes);
  if (head === undefined || head.expired(nowMs)) {
    refuseAbsent(state, head, query, reply);
    if (query.op === QUERIES.read.number && reply.code === NOT_FOUND) awaitStream(asked);
    return undefined;
  }
  return aboutStream(asked, head, reply);
}

const NOT_FOUND = errorNumber('STREAM_NOT_FOUND');

function awaitStream({ watchers, query }: Asked): void {
  const { topic, readFlags } = QUERIES.read.request.read(query);
  const { bytes, keyAt, keyBytes } = query;
  if (topic !== 0 && (readFlags & READ_FLAG_AWAIT) !== 0)
    watchers.awaitStream(bytes.subarray(keyAt, keyAt + keyBytes), topic);
}

function showAttributes({ state }: Asked, head: Head, reply: Reply): undefined {
  QUERIES.getAttributes.result.write(reply, { json: state.attributes(head) ?? NO_ATTRIBUTES });
}

function answerRead({ state, watchers, query }: Asked, head: Head, reply: Reply): Head | undefined {
  const asked = QUERIES.read.request.read(query);
  const plan = planRead(state, head, asked, reply);
  if (plan !== undefined) {
    if (asked.topic !== 0 && !head.closed) watchers.watch(head, asked.topic);
    reply.body = plan.body;
  }
  return (asked.readFlags & READ_FLAG_NO_TOUCH) === 0 ? head : undefined;
}

/** Codes for things that this node lacks and another one might have: the stream, the position, or its content type. */
export const MISSING: ReadonlySet<number> = new Set(
  (
    [
      'STREAM_NOT_FOUND',
      'STREAM_DELETED',
      'OFFSET_OUT_OF_RANGE',
      'RECORD_OUT_OF_RANGE',
      'RECORDS_UNAVAILABLE',
      'SNAPSHOT_NOT_FOUND',
    ] as const
  ).map(errorNumber),
);

/** Entries of the queue that one query looks at: some milliseconds. A group may have hundreds of thousands. */
const GC_LOOKS = 4096;

function answerBucketGarbage({ state, query }: Asked, reply: Reply): void {
  const { bucket, limit, from } = QUERIES.bucketGarbage.request.read(query);
  const { entries, next } = gcOfBucket(state, bucket, { most: limit, looks: GC_LOOKS }, from);
  const own = entries.filter(({ key }) => isOwnObject(key, state.group, state.cold.origin));
  QUERIES.bucketGarbage.result.write(reply, {
    // Only a restored group can refer to foreign objects; they stay, and do not count.
    isRestored: state.imported?.phase === 'done',
    seqs: entries.map(({ seq }) => seq),
    keys: own.map(({ key }) => key),
    next,
  });
}

/**
 * Answers with a slice of the published snapshot and what a bootstrap says about the stream. Returns the stream when a
 * named snapshot was found: reading one renews the lifetime, looking for one does not.
 */
function answerSnapshot({ state, query }: Asked, head: Head, reply: Reply): Head | undefined {
  const asked = QUERIES.snapshot.request.read(query);
  const snapshot = published(state, head);
  if (asked.choice !== 'any') {
    const wanted = asked.choice === 'latest' || snapshot?.offset === asked.offset;
    if (snapshot === undefined || !wanted) {
      refuse(reply, 'SNAPSHOT_NOT_FOUND', head);
      return undefined;
    }
  }
  reply.startOffset = head.startOffset;
  reply.nextOffset = head.tail;
  if (head.closed) reply.flags |= REPLY_CLOSED;
  if (head.json) {
    reply.flags |= REPLY_RECORDS;
    reply.recordFirst = head.recordFirst;
    reply.recordNext = head.recordNext;
  }
  const { incarnation } = head;
  const { offset = -1, size = 0 } = snapshot ?? {};
  const digest = snapshot === undefined ? '' : toHex(snapshot.digest);
  const hasBytes = snapshot !== undefined && asked.maxBytes > 0;
  const bytes = hasBytes ? state.snapshots.bytes(state.tx, incarnation, size, asked.from, asked.maxBytes) : NO_BYTES;
  QUERIES.snapshot.result.write(reply, { offset, incarnation, size, digest, bytes });
  if (snapshot === undefined) return undefined;
  reply.contentType = snapshot.contentType;
  return asked.choice === 'at' ? head : undefined;
}

function describeHead({ state }: Asked, head: Head, reply: Reply): undefined {
  const snapshot = published(state, head);
  const { hotStart, ttlSeconds, expiresAtMs, incarnation } = head;
  QUERIES.head.result.write(reply, {
    ...{ tag: tagOf(head), hotStart, ttlSeconds, expiresAtMs, incarnation },
    snapshot: snapshot && { offset: snapshot.offset, digest: toHex(snapshot.digest) },
  });
  reply.contentType = head.shownContentType;
  reply.startOffset = head.startOffset;
  reply.nextOffset = head.tail;
  reply.flags |= REPLY_UP_TO_DATE;
  if (head.closed) reply.flags |= REPLY_CLOSED;
  if (!head.json) return;
  reply.flags |= REPLY_RECORDS;
  reply.recordFirst = head.recordFirst;
  reply.recordStart = head.recordNext;
  reply.recordNext = head.recordNext;
}
