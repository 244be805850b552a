/**
 * An application's snapshots: PUT /{bucket}/{stream}/snapshot/{offset} or ?record=, GET the latest (a redirect) or the
 * one at an offset. DELETE never succeeds: a later snapshot takes the place of the present one.
 */
import { errorNumber } from '../../base/errors.ts';
import { fromHex, toHex } from '../../base/hex.ts';
import { DIGEST_BYTES } from '../../digest/blake3.ts';
import { snapshotDigest } from '../../digest/snapshot-digest.ts';
import { decodePathSegment, formatOffset, parseUint53 } from '../../protocol/header-values.ts';
import { normalizeContentType } from '../../protocol/media-type.ts';
import { PUBLISH_HEAD_BYTES, type Position, writePublishHead } from '../../protocol/position-command.ts';
import { REPLY_RECORDS, type Reply } from '../../protocol/reply.ts';
import { type Request, SNAPSHOT_AT, SNAPSHOT_LATEST, newRequest } from '../../protocol/request.ts';
import { Exchange } from '../exchange.ts';
import { checkToken, declaredBytes } from '../headers.ts';
import { Outpour } from '../outpour.ts';
import type { Plane } from '../plane.ts';
import { PositionExchange, parsePosition } from './position.ts';
import { RECORD_EXTENSION, type Responder } from '../respond.ts';
import { DEFAULT_CONTENT_TYPE, writeStoredType } from '../stored-type.ts';
import { Slices } from './slices.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';

const SNAPSHOT_IN_USE = errorNumber('SNAPSHOT_IN_USE');

export function handlePublish(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  bucket: string,
  stream: string,
  segment: string,
  startedMs: number,
): void {
  const position = parsePosition(segment, req.getQuery());
  if (!position.ok) {
    return plane.refuse(res, responder, 'bucketed', 'snapshot', startedMs, 'INVALID_POSITION', position.reason);
  }
  const contentType = normalizeContentType(req.getHeader('content-type'));
  const refusal = checkToken(contentType, 'Content-Type');
  if (refusal !== undefined) {
    return plane.refuse(res, responder, 'bucketed', 'snapshot', startedMs, refusal.code, refusal.detail);
  }
  const match = parseMatch(req);
  if (match === null) {
    const detail = 'Stream-Snapshot-Match must be the 64 hexadecimal digits of a digest';
    return plane.refuse(res, responder, 'bucketed', 'snapshot', startedMs, 'INVALID_HEADER', detail);
  }
  const exchange = new PublishExchange(plane, bucket, stream, position.value, match);
  exchange.request.command.contentType = contentType === '' ? DEFAULT_CONTENT_TYPE : contentType;
  exchange.open(res, responder, 'bucketed', 'snapshot', startedMs);
  return exchange.readBody(res, declaredBytes(req.getHeader('content-length')));
}

/** Of no snapshot: nobody finds bytes with this digest. */
const NO_DIGEST = new Uint8Array(DIGEST_BYTES);

/** Undefined: not sent. Null: blank. What is no digest is that of no snapshot, so it does not match. */
function parseMatch(req: UwsRequest): Uint8Array | undefined | null {
  let sent: string | undefined;
  req.forEach((name, value) => {
    if (name === 'stream-snapshot-match') sent ??= value;
  });
  if (sent === undefined) return undefined;
  return sent.trim() === '' ? null : (fromHex(sent.trim(), DIGEST_BYTES) ?? NO_DIGEST);
}

class PublishExchange extends PositionExchange {
  readonly #match: Uint8Array | undefined;
  #digest: Uint8Array = new Uint8Array(DIGEST_BYTES);
  #payload: Uint8Array = new Uint8Array(0);

  constructor(plane: Plane, bucket: string, stream: string, position: Position, match: Uint8Array | undefined) {
    super(plane, COMMANDS.publishSnapshot.number, bucket, stream, position);
    this.#match = match;
  }

  protected override bodyReady(body: Uint8Array): void {
    this.#digest = snapshotDigest(this.request.command.contentType, body);
    // Kept, because a position in the cold region is sent twice.
    this.#payload = new Uint8Array(PUBLISH_HEAD_BYTES + body.length);
    this.#payload.set(body, PUBLISH_HEAD_BYTES);
    this.sendCommand();
  }

  protected override fill(request: Request): void {
    writePublishHead(this.#payload, { position: this.position, digest: this.#digest, match: this.#match });
    request.command.payload = this.#payload;
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 204);
    res.writeHeader('stream-snapshot-offset', formatOffset(reply.startOffset));
    res.writeHeader('stream-snapshot-digest', toHex(this.#digest));
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    writeRecordRange(res, reply);
    res.endWithoutBody();
    return 204;
  }
}

/** First retained ordinal and the tail's, of a JSON stream. */
export function writeRecordRange(res: UwsResponse, reply: Pick<Reply, 'flags' | 'recordFirst' | 'recordNext'>): void {
  if ((reply.flags & REPLY_RECORDS) === 0) return;
  res.writeHeader('stream-record-first', String(reply.recordFirst));
  res.writeHeader('stream-record-next', String(reply.recordNext));
  res.writeHeader('stream-extensions', RECORD_EXTENSION);
}

export function snapshotQuery(plane: Plane, mode: number, bucket: string, stream: string, offset = 0): Request {
  const query = newRequest();
  query.op = QUERIES.snapshot.number;
  query.group = plane.ctx.gateway.groupOf(bucket, stream);
  query.command.bucket = bucket;
  query.command.stream = stream;
  query.mode = mode;
  query.value = offset;
  return query;
}

/** GET and HEAD .../snapshot: where the latest is. Relative, so that it holds behind whatever terminates TLS. */
export function handleLatestSnapshot(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  bucket: string,
  stream: string,
  startedMs: number,
): void {
  const exchange = new LatestExchange(plane, req.getUrl());
  exchange.open(res, responder, 'bucketed', 'snapshot', startedMs);
  exchange.send(snapshotQuery(plane, SNAPSHOT_LATEST, bucket, stream));
}

class LatestExchange extends Exchange {
  readonly #path: string;

  constructor(plane: Plane, path: string) {
    super(plane);
    this.#path = path;
  }

  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code !== 0) return responder.refusal(res, this.family, reply);
    responder.begin(res, 307);
    // The URL as it was sent, so that no name has to be encoded again.
    res.writeHeader('location', `${this.#path}/${formatOffset(reply.startOffset)}`);
    res.writeHeader('stream-snapshot-offset', formatOffset(reply.startOffset));
    res.writeHeader('stream-snapshot-digest', reply.text);
    writeRecordRange(res, reply);
    if (responder.headOnly) res.endWithoutBody();
    else res.end();
    return 307;
  }
}

/** GET and HEAD .../snapshot/{offset}. */
export function handleReadSnapshot(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  stream: string,
  segment: string,
  startedMs: number,
): void {
  const offset = parseUint53(decodePathSegment(segment) ?? '', 'the offset');
  if (!offset.ok) {
    return plane.refuse(res, responder, 'bucketed', 'snapshot', startedMs, 'INVALID_POSITION', offset.reason);
  }
  const out = new Outpour(plane, res, responder, 'snapshot', startedMs);
  const query = snapshotQuery(plane, SNAPSHOT_AT, bucket, stream, offset.value);
  const slices = new Slices(plane, out, query);
  return slices.start((first) => {
    const headers = (target: UwsResponse): void => {
      writeStoredType(target, first.contentType);
      target.writeHeader('stream-snapshot-offset', formatOffset(first.offset));
      target.writeHeader('stream-snapshot-digest', first.digest);
      target.writeHeader('stream-next-offset', formatOffset(first.offset));
      if (first.offset === first.tail) target.writeHeader('stream-up-to-date', 'true');
      writeRecordRange(target, first);
    };
    if (responder.headOnly) return out.whole(200, headers, undefined, first.size);
    if (slices.isWhole) return out.whole(200, headers, slices.body);
    out.begin(200, headers);
    return slices.pour(() => out.end());
  });
}

/** DELETE .../snapshot/{offset}: 409 for the present one, 404 for any other. */
export function handleDeleteSnapshot(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  stream: string,
  segment: string,
  startedMs: number,
): void {
  const offset = parseUint53(decodePathSegment(segment) ?? '', 'the offset');
  if (!offset.ok) {
    return plane.refuse(res, responder, 'bucketed', 'snapshot', startedMs, 'INVALID_POSITION', offset.reason);
  }
  const exchange = new DeleteExchange(plane);
  exchange.open(res, responder, 'bucketed', 'snapshot', startedMs);
  return exchange.send(snapshotQuery(plane, SNAPSHOT_AT, bucket, stream, offset.value));
}

class DeleteExchange extends Exchange {
  protected override answer(res: UwsResponse, responder: Responder, reply: Reply): number {
    if (reply.code === 0) {
      reply.code = SNAPSHOT_IN_USE;
      // The digest; a refusal would say it behind its sentence.
      reply.text = '';
    }
    return responder.refusal(res, this.family, reply);
  }
}
