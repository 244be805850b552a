/** PUT on a stream. */
import type { ForkWish } from '../../ports.ts';
import { formatRfc3339 } from '../../protocol/header-values.ts';
import { REPLY_CREATED, type Reply } from '../../protocol/reply.ts';
import { newRequest } from '../../protocol/request.ts';
import { writeWriteHeaders } from './append.ts';
import { BodyExchange } from '../body.ts';
import type { Family } from '../contract.ts';
import { parseFork } from '../fork-headers.ts';
import { type WriteHeaders, declaredBytes, fillCommand, writeHeaders } from '../headers.ts';
import type { Plane } from '../plane.ts';
import type { Responder } from '../respond.ts';
import { shownContentType, writeStoredType } from '../stored-type.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/**
 * The path as it was sent: its encoding keeps line breaks in names out of the answer's header block. On the flat routes the protocol
 * wants a whole URL; behind a proxy that ends TLS, its scheme is the proxy's. Only the sender of the request is told.
 */
function locationOf(plane: Plane, family: Family, path: string, headers: WriteHeaders): string {
  if (family !== 'flat' || headers.host === undefined) return path;
  const own = plane.ctx.settings.tls === undefined ? 'http' : 'https';
  const outer = headers.forwardedProto?.trim().toLowerCase();
  return `${outer === 'https' || outer === 'http' ? outer : own}://${headers.host}${path}`;
}

export function handleCreate(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  family: Family,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const headers = writeHeaders();
  const location = locationOf(plane, family, req.getUrl(), headers);
  const fork = parseFork(headers);
  if (!fork.ok) return plane.refuse(res, responder, family, 'create', startedMs, 'INVALID_HEADER', fork.reason);
  const exchange = new CreateExchange(plane, bucket, stream, location, fork.wish);
  const refusal = fillCommand(headers, exchange.request.command, true);
  if (refusal !== undefined) {
    return plane.refuse(res, responder, family, 'create', startedMs, refusal.code, refusal.detail);
  }
  if (fork.wish !== undefined && exchange.request.command.condition !== '') {
    const detail = 'If-Match and If-None-Match cannot be used with Stream-Forked-From';
    return plane.refuse(res, responder, family, 'create', startedMs, 'INVALID_HEADER', detail);
  }
  const declared = declaredBytes(headers.contentLength);
  exchange.open(res, responder, family, 'create', startedMs);
  exchange.readBody(res, declared);
}

/** A fork may have inherited it. */
function lifetimeOf(reply: Reply): { ttlSeconds: number; expiresAtMs: number } {
  const [ttlSeconds = -1, expiresAtMs = -1] = reply.text.split(' ').map(Number);
  return { ttlSeconds, expiresAtMs };
}

class CreateExchange extends BodyExchange {
  readonly request = newRequest();
  readonly #location: string;
  readonly #fork: ForkWish | undefined;

  constructor(plane: Plane, bucket: string, stream: string, location: string, fork: ForkWish | undefined) {
    super(plane);
    this.#location = location;
    this.#fork = fork;
    this.request.op = COMMANDS.create.number;
    this.request.command.kind = COMMANDS.create.number;
    this.request.command.bucket = bucket;
    this.request.command.stream = stream;
  }

  protected override bodyReady(body: Uint8Array): void {
    const command = this.request.command;
    command.payload = body.length === 0 ? undefined : body;
    this.request.group = this.plane.ctx.gateway.groupOf(command.bucket, command.stream);
    if (this.#fork === undefined) this.send(this.request);
    else this.#make(this.#fork);
    command.payload = undefined;
  }

  #make(fork: ForkWish): void {
    this.sent = this.plane.ctx.forks.create(this.request, fork, this);
    if (!this.sent) this.fail('FORKS_FULL');
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    const { ttlSeconds, expiresAtMs } = this.#fork === undefined ? this.request.command : lifetimeOf(reply);
    const status = reply.has(REPLY_CREATED) ? 201 : 200;
    responder.begin(res, status);
    res.writeHeader('location', this.#location);
    writeStoredType(res, shownContentType(reply));
    writeWriteHeaders(res, reply);
    // The same on a new and on an existing stream, where they were just compared.
    if (ttlSeconds >= 0) res.writeHeader('stream-ttl', String(ttlSeconds));
    if (expiresAtMs >= 0) res.writeHeader('stream-expires-at', formatRfc3339(expiresAtMs));
    res.end();
    return status;
  }
}
