/** PUT, HEAD and DELETE on a stream: create (maybe as a fork), describe, remove; and its attributes. */
import type { ErrorCode, RefusalReason } from '../../base/errors.ts';
import { ATTRIBUTES_BYTES_MAX } from '../../base/limits.ts';
import { TOO_MANY_TAGS, type WriteHeaders, declaredBytes, fillCreate } from '../headers.ts';
import { newPath, parsePath } from '../paths.ts';
import { writeHeadVary } from '../read-response.ts';
import type { BodyConsumer, ReplyRenderer, RequestContext } from '../request.ts';
import { JSON_TYPE, writeRecordRange } from '../response.ts';
import { writeWriteHeaders } from './append.ts';
import { type HeaderWriter, shownContentType, writeStoredType } from '../../access/stored-type.ts';
import type { HttpServerContext } from '../server-context.ts';
import type { UwsResponse } from '../uws.ts';
import type { ForkRequest } from '../../ports.ts';
import { conditionText } from '../../protocol/condition.ts';
import type { CreateFields } from '../../protocol/create.ts';
import { FORK_AT_TAIL } from '../../protocol/fork-command.ts';
import { OFFSET_START, formatOffset, parseOffset, parseUint53 } from '../../protocol/header-values.ts';
import { isJson } from '../../protocol/media-type.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { REPLY_CLOSED, REPLY_CREATED, Reply } from '../../protocol/reply.ts';
import { type Request, type StreamTarget, beginCommand, newRequest } from '../../protocol/request.ts';

/**
 * The path as it was sent: its encoding keeps line breaks in names out of the answer's header
 * block. On the flat routes the protocol wants a whole URL; behind a proxy that ends TLS, its
 * scheme is the proxy's. Only the sender of the request is told.
 */
function locationOf({ family, path, server }: RequestContext, { host, forwardedProto }: WriteHeaders): string {
  if (family !== 'flat' || host === undefined) return path.url;
  const own = server.settings.tls === undefined ? 'http' : 'https';
  // Proxies in a row append theirs.
  const outer = forwardedProto?.split(',', 1)[0]?.trim().toLowerCase();
  return `${outer === 'https' || outer === 'http' ? outer : own}://${host}${path.url}`;
}

export function handleCreate(call: RequestContext): void {
  const headers = call.headers;
  const fork = parseFork(headers);
  if (!fork.ok) return call.refuse('INVALID_HEADER', fork.reason);
  const command = beginCommand(call.request, COMMANDS.create, call);
  const refusal = fillCreate(headers, command);
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  if (fork.request !== undefined && command.condition !== '') {
    return call.refuse('INVALID_HEADER', 'If-Match and If-None-Match cannot be used with Stream-Forked-From');
  }
  return call.readBody(declaredBytes(headers.contentLength), new Create(locationOf(call, headers), fork.request));
}

/** Puts the body of a create, perhaps an empty one, behind its other fields. */
export function completeCreate(
  server: HttpServerContext,
  command: CreateFields,
  body: Uint8Array,
): ErrorCode | undefined {
  command.payload = body.length === 0 ? undefined : body;
  return server.takesCondition(command.condition) ? undefined : 'UPGRADE_UNFINISHED';
}

class Create implements BodyConsumer, ReplyRenderer {
  readonly #location: string;
  readonly #fork: ForkRequest | undefined;

  constructor(location: string, fork: ForkRequest | undefined) {
    this.#location = location;
    this.#fork = fork;
  }

  consume(call: RequestContext, body: Uint8Array): void {
    const { request, server } = call;
    const command = COMMANDS.create.request.fields(request.command);
    const fault = completeCreate(server, command, body);
    if (fault !== undefined) return call.refuse(fault);
    const fork = this.#fork;
    if (fork === undefined) call.send(request, this, server.writes);
    else call.sendThrough((handler) => server.ctx.forks.create(request, fork, handler), this, 'FORKS_FULL');
    command.payload = undefined;
  }

  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    // A fork may have inherited it.
    const { ttlSeconds, expiresAtMs } =
      this.#fork === undefined ? call.request.command : COMMANDS.forkEnd.result.read(reply);
    const status = reply.has(REPLY_CREATED) ? 201 : 200;
    responder.begin(res, status);
    res.writeHeader('location', this.#location);
    writeStoredType(res, shownContentType(reply));
    writeWriteHeaders(res, reply);
    // The same on a new and on an existing stream, where they were just compared.
    writeLifetime(res, ttlSeconds, expiresAtMs);
    res.end();
    return status;
  }
}

/** How the reference writes the start of a stream; the only offset of its form that means something here. */
const REFERENCE_START = '0000000000000000_0000000000000000';

/** `request` undefined: no fork. */
type ParsedFork =
  | { readonly ok: true; readonly request: ForkRequest | undefined }
  | { readonly ok: false; readonly reason: string };

const path = newPath();
const NO_FORK: ParsedFork = { ok: true, request: undefined };
const bad = (reason: string): ParsedFork => ({ ok: false, reason });

export function parseFork({ forkedFrom, forkOffset, forkSubOffset }: WriteHeaders): ParsedFork {
  if (forkedFrom === undefined) {
    if (forkOffset === undefined && forkSubOffset === undefined) return NO_FORK;
    return bad('Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From');
  }
  const offset = readOffset(forkOffset?.trim());
  if (offset === undefined) return bad('Stream-Fork-Offset must be an offset that the server returned, or -1');
  const subOffset = readSubOffset(forkSubOffset?.trim());
  if (subOffset === undefined)
    return bad('Stream-Fork-Sub-Offset must be a whole number without a sign or leading zeros');
  if (subOffset > 0 && offset === FORK_AT_TAIL) return bad('Stream-Fork-Sub-Offset needs Stream-Fork-Offset');
  parsePath(forkedFrom.trim(), path);
  if (path.pattern === 'invalid') return bad(`Stream-Forked-From: ${path.detail}`);
  if (path.pattern !== '/{bucket}/{stream}') return bad('Stream-Forked-From must be the path of a stream');
  return { ok: true, request: { bucket: path.bucket, stream: path.stream, offset, subOffset } };
}

function readOffset(text: string | undefined): number | undefined {
  if (text === undefined) return FORK_AT_TAIL;
  if (text === REFERENCE_START) return 0;
  const parsed = parseOffset(text);
  if (!parsed.ok || parsed.value === 'now') return undefined;
  return parsed.value === OFFSET_START ? 0 : parsed.value;
}

function readSubOffset(text: string | undefined): number | undefined {
  if (text === undefined) return 0;
  if (text.length > 1 && text.startsWith('0')) return undefined;
  const parsed = parseUint53(text);
  return parsed.ok ? parsed.value : undefined;
}

export function handleHead(call: RequestContext): void {
  call.ask(QUERIES.head, HEAD);
}

const HEAD: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    responder.begin(res, 200);
    writeStoredType(res, shownContentType(reply));
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    writeHeadVary(res, responder, reply);
    writeDescription(res, reply);
    // No Content-Length: the size of the GET's answer depends on its query, and 0 would be a lie.
    res.endWithoutBody();
    return 200;
  },
};

/** The answer to HEAD, beside the type and the tail. */
export function writeDescription(res: HeaderWriter, reply: Reply): void {
  res.writeHeader('stream-up-to-date', 'true');
  const { tag, hotStart, snapshot, ttlSeconds, expiresAtMs } = QUERIES.head.result.read(reply);
  res.writeHeader('stream-retained-offset', String(reply.startOffset));
  res.writeHeader('etag', `"${tag}"`);
  res.writeHeader('stream-cold-hot-start-offset', String(hotStart));
  if (snapshot !== undefined) {
    res.writeHeader('stream-snapshot-offset', formatOffset(snapshot.offset));
    res.writeHeader('stream-snapshot-digest', snapshot.digest);
  }
  writeLifetime(res, ttlSeconds, expiresAtMs);
  if (reply.has(REPLY_CLOSED)) res.writeHeader('stream-closed', 'true');
  writeRecordRange(res, reply);
}

function writeLifetime(res: HeaderWriter, ttlSeconds: number, expiresAtMs: number): void {
  if (ttlSeconds >= 0) res.writeHeader('stream-ttl', String(ttlSeconds));
  if (expiresAtMs >= 0) res.writeHeader('stream-expires-at', new Date(expiresAtMs).toISOString());
}

export function handleDelete(call: RequestContext): void {
  const { request } = call;
  const refusal = fillDelete(call.server, call.headers, request, call);
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  call.send(request, DELETE);
  return call.releaseRequest();
}

export function fillDelete(
  server: HttpServerContext,
  { ifMatch, ifNoneMatch }: WriteHeaders,
  request: Request,
  target: StreamTarget,
): RefusalReason | undefined {
  const condition = conditionText(ifMatch, ifNoneMatch);
  if (condition === undefined) return { code: 'INVALID_HEADER', detail: TOO_MANY_TAGS };
  if (!server.takesCondition(condition)) return { code: 'UPGRADE_UNFINISHED', detail: '' };
  beginCommand(request, COMMANDS.deleteStream, target).condition = condition;
  return undefined;
}

function answerDone({ responder }: RequestContext, res: UwsResponse): number {
  return responder.empty(res, 204);
}

/** How long a client waits while the source of a fork is told that the fork is gone. */
const TELL_MS = 2000;

/** True: what was deleted is a fork, and `deliver` gets the reply when its source has been told, or soon after. */
export function tellSource(
  { ctx }: HttpServerContext,
  group: number,
  reply: Reply,
  deliver: (reply: Reply) => void,
): boolean {
  const gone = reply.code === 0 ? COMMANDS.deleteStream.result.read(reply) : undefined;
  if (gone === undefined) return false;
  // Telling the source takes its time, and the reply is used again.
  const answer = Object.assign(new Reply(), reply);
  let answered = false;
  const finish = (): void => {
    if (answered) return;
    answered = true;
    clearTimeout(late);
    deliver(answer);
  };
  const late = setTimeout(finish, TELL_MS);
  ctx.forks.tell(group, gone, finish);
  return true;
}

const DELETE: ReplyRenderer = {
  intercept(call: RequestContext, reply: Reply): boolean {
    return tellSource(call.server, call.group, reply, (answer) => call.deliver(answer));
  },

  render: answerDone,
};

/**
 * Bytes of an attribute body as sent. The limit of 16 KiB counts the normalised form, which may be smaller: blanks,
 * escapes and unknown members go. But attributes travel inside the mailbox frame, so what is sent needs a bound too.
 */
export const SENT_BYTES_MAX = 8 * ATTRIBUTES_BYTES_MAX;

export function handleGetAttributes(call: RequestContext): void {
  call.ask(QUERIES.getAttributes, GET);
}

const GET: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    responder.begin(res, 200);
    res.writeHeader('content-type', JSON_TYPE);
    responder.end(res, QUERIES.getAttributes.result.read(reply).json);
    return 200;
  },
};

export function handlePutAttributes(call: RequestContext): void {
  const { contentType, contentLength } = call.headers;
  if (contentType === undefined || contentType.trim() === '') return call.refuse('MISSING_CONTENT_TYPE');
  if (!isJson(contentType)) return call.refuse('INVALID_HEADER', 'Content-Type must be application/json');
  return call.readBody(declaredBytes(contentLength), PUT);
}

const TOO_LARGE = `the body exceeds ${SENT_BYTES_MAX} bytes`;

/** Returns what is wrong with the size of the attributes. */
export function fillAttributes(request: Request, target: StreamTarget, attributes: Uint8Array): string | undefined {
  if (attributes.length === 0) return 'the body is empty; send {} to clear them';
  if (attributes.length > SENT_BYTES_MAX) return TOO_LARGE;
  beginCommand(request, COMMANDS.setAttributes, target).attributes = attributes;
  return undefined;
}

const PUT: BodyConsumer & ReplyRenderer = {
  tooLarge(call: RequestContext): void {
    call.refuse('INVALID_ATTRIBUTES', TOO_LARGE);
  },

  consume(call: RequestContext, body: Uint8Array): void {
    const request = newRequest();
    const fault = fillAttributes(request, call, body);
    if (fault !== undefined) return call.refuse('INVALID_ATTRIBUTES', fault);
    return call.send(request, PUT);
  },

  render: answerDone,
};
