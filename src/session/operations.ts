/**
 * Each kind of request: the question to a shard, and the answer. Both are those of the HTTP routes, whose functions fill
 * the commands, refuse what they refuse, and write the fields of an answer.
 */
import { shownContentType } from '../access/stored-type.ts';
import type { ErrorCode, RefusalReason } from '../base/errors.ts';
import { READ_BYTES_MAX, SESSION_READ_BYTES_MIN } from '../base/limits.ts';
import type { ScopedOperation } from '../base/scopes.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import type { RouteTraits } from '../http/context.ts';
import { fillAppend, fillCreate } from '../http/headers.ts';
import { type ReadQuery, parseReadQuery } from '../http/query.ts';
import { readEtag, writeIncarnation, writeReadState } from '../http/read-response.ts';
import { completeAppend, completeBatch, resultsBeyondQuota, writeOutcome } from '../http/routes/append.ts';
import { completeRead } from '../http/routes/read.ts';
import { completeCreate, fillAttributes, fillDelete, writeDescription } from '../http/routes/streams.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import { frameCount } from '../protocol/append-batch.ts';
import { COMMANDS, QUERIES } from '../protocol/operations.ts';
import { fillRead, limitRead } from '../protocol/queries/read.ts';
import { READ_NOW } from '../protocol/read-fields.ts';
import { REPLY_CREATED, REPLY_DUPLICATE, REPLY_PRODUCER, type Reply } from '../protocol/reply.ts';
import { type Request, beginCommand, fillRequest } from '../protocol/request.ts';
import { type Frame, NO_BODY } from './frame.ts';
import { APPEND, ATTRIBUTES, CREATE, DELETE, HEAD, READ, type FieldWriter, beginDone, endWith } from './messages.ts';

/** One request as it was sent to a shard. */
export interface SentRequest {
  readonly id: number;
  /** Messages of a batch. */
  frames: number;
  /** The question of a read. */
  query: ReadQuery | undefined;
}

export interface SessionOperation {
  /** The metrics count it as this. */
  readonly counted: RouteTraits['operation'];
  /** Quotas may count it, and it goes by their gate. */
  readonly isCounted: boolean;
  /** A fork may be removed, whose source is told before the answer. */
  readonly tellsSource?: true;
  /** Several small ones for one stream may be under way: their order is that of the mailbox. */
  readonly isPipelined: boolean;
  /** A token with scopes must allow this on the stream. */
  readonly right: ScopedOperation;
  fill(request: Request, frame: Frame, server: HttpServerContext, sent: SentRequest): RefusalReason | undefined;
  /** Writes the answer to a reply that is no refusal, and returns what HTTP's status would be. */
  answer(fields: FieldWriter, sent: SentRequest, reply: Reply): number;
  /** The answer to a refusal that is none here; undefined: it is one. */
  answerRefusal?(fields: FieldWriter, sent: SentRequest, reply: Reply): number | undefined;
}

const refused = (code: ErrorCode | undefined, detail = ''): RefusalReason | undefined => code && { code, detail };

const CREATE_STREAM: SessionOperation = {
  right: 'create',
  ...{ counted: 'create', isCounted: true, isPipelined: false },
  fill(request, frame, server) {
    const command = beginCommand(request, COMMANDS.create, frame);
    return fillCreate(frame.headers, command) ?? refused(completeCreate(server, command, frame.body ?? NO_BODY));
  },
  answer(fields, { id }, reply) {
    const isNew = reply.has(REPLY_CREATED);
    beginDone(fields, id, reply.nextOffset);
    fields.writeHeader('content-type', shownContentType(reply));
    if (isNew) fields.writeHeader('stream-created', 'true');
    writeOutcome(fields, reply);
    endWith(fields, undefined);
    return isNew ? 201 : 200;
  },
};

const APPEND_ONE: SessionOperation = {
  right: 'append',
  ...{ counted: 'append', isCounted: true, isPipelined: true },
  fill(request, frame, server) {
    const command = beginCommand(request, COMMANDS.append, frame);
    return fillAppend(frame.headers, command) ?? refused(completeAppend(server, command, frame.body ?? NO_BODY));
  },
  answer(fields, { id }, reply) {
    beginDone(fields, id, reply.nextOffset);
    const isDuplicate = reply.has(REPLY_DUPLICATE);
    if (isDuplicate) fields.writeHeader('producer-duplicate', 'true');
    writeOutcome(fields, reply);
    endWith(fields, undefined);
    return reply.has(REPLY_PRODUCER) && !isDuplicate ? 200 : 204;
  },
};

/** As an append, when the body is empty. */
const CLOSE: SessionOperation = { ...APPEND_ONE, counted: 'close' };

const APPEND_SEVERAL: SessionOperation = {
  right: 'append',
  ...{ counted: 'batch', isCounted: true, isPipelined: true },
  fill(request, frame, server, sent) {
    const body = frame.body ?? NO_BODY;
    sent.frames = frameCount(body);
    const command = beginCommand(request, COMMANDS.appendBatch, frame);
    return fillAppend(frame.headers, command) ?? completeBatch(server, command, body);
  },
  answer(fields, { id }, reply) {
    beginDone(fields, id, reply.nextOffset);
    if (reply.has(REPLY_DUPLICATE)) fields.writeHeader('producer-duplicate', 'true');
    if (reply.has(REPLY_PRODUCER)) writeOutcome(fields, reply);
    endWith(fields, reply.body ?? encodeUtf8('[]'));
    return 200;
  },
  answerRefusal(fields, { id, frames }, reply) {
    const results = resultsBeyondQuota(reply, frames);
    if (results === undefined) return undefined;
    beginDone(fields, id, reply.nextOffset);
    endWith(fields, encodeUtf8(results));
    return 200;
  },
};

const DESCRIBE: SessionOperation = {
  right: 'read',
  ...{ counted: 'head', isCounted: false, isPipelined: false },
  fill(request, frame) {
    fillRequest(request, QUERIES.head, frame.group, { bucket: frame.bucket, stream: frame.stream });
    return undefined;
  },
  answer(fields, { id }, reply) {
    beginDone(fields, id, reply.nextOffset);
    fields.writeHeader('content-type', shownContentType(reply));
    writeDescription(fields, reply);
    endWith(fields, undefined);
    return 200;
  },
};

const READ_RANGE: SessionOperation = {
  right: 'read',
  ...{ counted: 'read', isCounted: false, isPipelined: false },
  fill(request, frame, { backpressure }, sent) {
    const parsed = parseReadQuery(frame.query, 0, '');
    if (!parsed.ok) return refused('INVALID_QUERY', parsed.reason);
    if (backpressure.full) return refused('ANSWERS_FULL');
    const { params } = (sent.query = parsed.value);
    fillRead(request, frame, params, 0);
    limitRead(request, backpressure.readBytes(params.maxBytes));
    return undefined;
  },
  answer(fields, { id, query }, reply) {
    completeRead(reply, query?.noBytes === true);
    beginDone(fields, id, reply.nextOffset);
    fields.writeHeader('content-type', shownContentType(reply));
    if (query !== undefined) {
      writeIncarnation(fields, reply);
      if (query.params.mode !== READ_NOW) fields.writeHeader('etag', readEtag(reply, query.params));
      writeReadState(fields, reply, query.params);
    }
    endWith(fields, reply.body ?? NO_BODY);
    return 200;
  },
};

/** Bytes that the answer to a read counts as: those that it may have, as far as its question says. */
export function readBytesOf(frame: Frame): number {
  if (frame.kind !== READ) return 0;
  // The last of a repeated option counts, as in the question (protocol/query-string.ts).
  const asked = /^(?:.*&)?max_bytes=([^&]*)/.exec(frame.query)?.[1] ?? '';
  const mostBytes = /^\d{1,7}$/.test(asked) ? Math.min(Number(asked), READ_BYTES_MAX) : READ_BYTES_MAX;
  return Math.max(mostBytes, SESSION_READ_BYTES_MIN);
}

const done =
  (status: number) =>
  (fields: FieldWriter, { id }: SentRequest) => {
    beginDone(fields, id, -1);
    endWith(fields, undefined);
    return status;
  };

const REMOVE: SessionOperation = {
  right: 'delete',
  ...{ counted: 'delete', isCounted: false, isPipelined: false, tellsSource: true },
  fill: (request, frame, server) => fillDelete(server, frame.headers, request, frame),
  answer: done(204),
};

const READ_ATTRIBUTES: SessionOperation = {
  right: 'read',
  ...{ counted: 'attrs', isCounted: false, isPipelined: false },
  fill(request, frame) {
    fillRequest(request, QUERIES.getAttributes, frame.group, { bucket: frame.bucket, stream: frame.stream });
    return undefined;
  },
  answer(fields, { id }, reply) {
    beginDone(fields, id, -1);
    endWith(fields, QUERIES.getAttributes.result.read(reply).json);
    return 200;
  },
};

const WRITE_ATTRIBUTES: SessionOperation = {
  right: 'attributes',
  ...{ counted: 'attrs', isCounted: false, isPipelined: false },
  fill(request, frame) {
    const fault = fillAttributes(request, frame, frame.body ?? NO_BODY);
    return fault === undefined ? undefined : { code: 'INVALID_ATTRIBUTES', detail: fault };
  },
  answer: done(204),
};

/** Undefined: the frame is about a subscription. */
export function operationOf({ kind, body, isBatch }: Frame): SessionOperation | undefined {
  switch (kind) {
    case CREATE:
      return CREATE_STREAM;
    case APPEND:
      if (isBatch) return APPEND_SEVERAL;
      return body === undefined || body.length === 0 ? CLOSE : APPEND_ONE;
    case HEAD:
      return DESCRIBE;
    case READ:
      return READ_RANGE;
    case DELETE:
      return REMOVE;
    case ATTRIBUTES:
      return body === undefined ? READ_ATTRIBUTES : WRITE_ATTRIBUTES;
    default:
      return undefined;
  }
}

/** The right that the frame takes. A subscription reads, and nothing is followed that could not be read. */
export function rightOf(frame: Frame): ScopedOperation {
  return operationOf(frame)?.right ?? 'read';
}
