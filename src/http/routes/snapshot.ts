/**
 * An application's snapshots: PUT /{bucket}/{stream}/snapshot/{offset} or ?record=, GET the latest (a redirect) or the
 * one at an offset. DELETE never succeeds: a later snapshot takes the place of the present one.
 */
import { ownCopy } from '../../base/bytes.ts';
import { errorNumber } from '../../base/errors.ts';
import { fromHex, toHex } from '../../base/hex.ts';
import { DIGEST_BYTES, snapshotDigest } from '../../digest/blake3.ts';
import { checkToken, declaredBytes } from '../headers.ts';
import type { ReplyRenderer, RequestContext } from '../request.ts';
import { writeRecordRange } from '../response.ts';
import { PositionCommand, parsePosition } from './position.ts';
import { DEFAULT_CONTENT_TYPE, writeStoredType } from '../../access/stored-type.ts';
import type { StreamingResponse } from '../streaming.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import type { ReplyHandler } from '../../ports.ts';
import { decodeUrlPart, formatOffset, parseUint53 } from '../../protocol/header-values.ts';
import { normalizeContentType } from '../../protocol/media-type.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { type Position, payloadOfSnapshot } from '../../protocol/position-command.ts';
import { Reply } from '../../protocol/reply.ts';
import { type Request, requestFor } from '../../protocol/request.ts';
import type { SnapshotRequest, SnapshotResult } from '../../protocol/queries/stream.ts';

const SNAPSHOT_IN_USE = errorNumber('SNAPSHOT_IN_USE');

export function handlePublish(call: RequestContext): void {
  const { req } = call;
  const position = parsePosition(call.path.detail, req.getQuery());
  if (!position.ok) return call.refuse('INVALID_POSITION', position.reason);
  const contentType = normalizeContentType(req.getHeader('content-type'));
  const refusal = checkToken(contentType, 'Content-Type');
  if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
  const match = parseMatch(req);
  if (match === null) {
    return call.refuse('INVALID_HEADER', 'Stream-Snapshot-Match must be the 64 hexadecimal digits of a digest');
  }
  const publish = new Publish(position.value, contentType === '' ? DEFAULT_CONTENT_TYPE : contentType, match);
  return call.readBody(declaredBytes(req.getHeader('content-length')), publish);
}

/** No snapshot has this digest: no bytes with it can be found. */
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

class Publish extends PositionCommand {
  readonly #contentType: string;
  readonly #match: Uint8Array | undefined;
  #digest: Uint8Array = new Uint8Array(DIGEST_BYTES);
  #payload: Uint8Array = new Uint8Array(0);

  constructor(position: Position, contentType: string, match: Uint8Array | undefined) {
    super(position);
    this.#contentType = contentType;
    this.#match = match;
  }

  override consume(call: RequestContext, body: Uint8Array): void {
    this.#digest = snapshotDigest(this.#contentType, body);
    // Kept, because a position in the cold region is sent twice.
    this.#payload = payloadOfSnapshot(body);
    this.sendCommand(call);
  }

  protected override command({ group, bucket, stream }: RequestContext): Request {
    return requestFor(COMMANDS.publishSnapshot, group, {
      ...{ bucket, stream, contentType: this.#contentType, position: this.position },
      ...{ digest: this.#digest, match: this.#match, payload: this.#payload },
    });
  }

  override render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    responder.begin(res, 204);
    res.writeHeader('stream-snapshot-offset', formatOffset(reply.startOffset));
    res.writeHeader('stream-snapshot-digest', toHex(this.#digest));
    res.writeHeader('stream-next-offset', formatOffset(reply.nextOffset));
    writeRecordRange(res, reply);
    res.endWithoutBody();
    return 204;
  }
}

type Wanted = Pick<SnapshotRequest, 'choice'> & Partial<SnapshotRequest>;

function snapshotQuery({ group, bucket, stream }: RequestContext, wanted: Wanted): Request {
  return requestFor(QUERIES.snapshot, group, { bucket, stream, offset: 0, from: 0, maxBytes: 0, ...wanted });
}

/** GET and HEAD .../snapshot: where the latest is. Relative, so that it holds behind whatever terminates TLS. */
export function handleLatestSnapshot(call: RequestContext): void {
  const { req, credentials } = call;
  const isLinked = typeof credentials === 'object' && credentials.isForUrl === true;
  const query = isLinked ? `?access_token=${req.getQuery('access_token')}` : '';
  call.send(snapshotQuery(call, { choice: 'latest' }), latest(query));
}

/** `query`: the token of a link, which the next link needs too. */
function latest(query: string): ReplyRenderer {
  return {
    render({ path, responder }, res, reply) {
      responder.begin(res, 307);
      const { offset, digest } = QUERIES.snapshot.result.read(reply);
      // The URL as it was sent, so that no name has to be encoded again.
      res.writeHeader('location', `${path.url}/${formatOffset(offset)}${query}`);
      res.writeHeader('stream-snapshot-offset', formatOffset(offset));
      res.writeHeader('stream-snapshot-digest', digest);
      writeRecordRange(res, reply);
      if (responder.headOnly) res.endWithoutBody();
      else res.end();
      return 307;
    },
  };
}

/** GET and HEAD .../snapshot/{offset}. */
export function handleReadSnapshot(call: RequestContext): void {
  const offset = parseUint53(decodeUrlPart(call.path.detail) ?? '', 'the offset');
  if (!offset.ok) return call.refuse('INVALID_POSITION', offset.reason);
  return void writeSnapshot(call, offset.value).catch((error: unknown) => call.crash(error));
}

async function writeSnapshot(call: RequestContext, offset: number): Promise<void> {
  const { headOnly } = call.responder;
  const response = call.streaming();
  const slices = new Slices(call, response, { choice: 'at', offset });
  const first = await slices.first();
  if (first === undefined) return;
  const headers = (target: UwsResponse): void => {
    writeStoredType(target, first.contentType);
    target.writeHeader('stream-snapshot-offset', formatOffset(first.offset));
    target.writeHeader('stream-snapshot-digest', first.digest);
    target.writeHeader('stream-next-offset', formatOffset(first.offset));
    if (first.offset === first.tail) target.writeHeader('stream-up-to-date', 'true');
    writeRecordRange(target, first);
  };
  const head = { status: 200, headers };
  if (headOnly) return response.whole(head, undefined, first.size);
  if (slices.isWhole) return response.whole(head, slices.body);
  response.begin(head);
  if (await slices.writeAll()) response.end();
}

/** DELETE .../snapshot/{offset}: 409 for the present one, 404 for any other. */
export function handleDeleteSnapshot(call: RequestContext): void {
  const offset = parseUint53(decodeUrlPart(call.path.detail) ?? '', 'the offset');
  if (!offset.ok) return call.refuse('INVALID_POSITION', offset.reason);
  return call.send(snapshotQuery(call, { choice: 'at', offset: offset.value }), DELETE);
}

const DELETE: ReplyRenderer = {
  render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    reply.code = SNAPSHOT_IN_USE;
    return call.responder.refusal(res, call.family, reply);
  },
};

/** The stream and its snapshot, as the first slice describes them; offset -1: none, where any is asked for. */
export interface Published extends Omit<SnapshotResult, 'bytes'> {
  readonly contentType: string;
  /** The retention floor. A fork may have one above 0 without a snapshot. */
  readonly floor: number;
  readonly tail: number;
  /** Flags of the reply: closed, records. */
  readonly flags: number;
  readonly recordFirst: number;
  readonly recordNext: number;
}

/** Fetches a published snapshot from its shard in slices, so neither shard nor process holds more than one. */
export class Slices {
  readonly #call: RequestContext;
  readonly #response: StreamingResponse;
  readonly #wanted: Wanted;
  #first: Published | undefined;
  #body: Uint8Array = new Uint8Array(0);
  #sent = 0;

  constructor(call: RequestContext, response: StreamingResponse, wanted: Wanted) {
    this.#call = call;
    this.#response = response;
    this.#wanted = wanted;
  }

  /** Asks for the first slice. Undefined: the request has been answered, or its client is gone. */
  async first(): Promise<Published | undefined> {
    const reply = await this.#ask();
    if (reply === undefined) return undefined;
    const { contentType, startOffset: floor, nextOffset: tail, flags, recordFirst, recordNext } = reply;
    const { bytes, ...snapshot } = QUERIES.snapshot.result.read(reply);
    this.#body = bytes;
    return (this.#first = { ...snapshot, contentType, floor, tail, flags, recordFirst, recordNext });
  }

  /** True when the first slice is the whole snapshot. */
  get isWhole(): boolean {
    return this.#first === undefined || this.#body.length >= this.#first.size;
  }

  get body(): Uint8Array | undefined {
    return this.#body.length === 0 ? undefined : this.#body;
  }

  /** Writes all slices, the first included. False: the answer has ended early. */
  async writeAll(): Promise<boolean> {
    for (;;) {
      const piece = this.#body;
      this.#sent += piece.length;
      this.#body = new Uint8Array(0);
      await this.#response.put(piece);
      if (this.#sent >= (this.#first?.size ?? 0)) return true;
      const reply = await this.#ask();
      if (reply === undefined) return false;
      // Another snapshot took its place, or another stream: half of each is none.
      const { incarnation, digest, offset, bytes } = QUERIES.snapshot.result.read(reply);
      this.#body = bytes;
      const isSame =
        incarnation === this.#first?.incarnation && digest === this.#first.digest && offset === this.#first.offset;
      if (isSame && this.#body.length > 0) continue;
      this.#response.cut();
      return false;
    }
  }

  async #ask(): Promise<Reply | undefined> {
    const slice = { from: this.#sent, maxBytes: this.#response.pieceBytes };
    const query = snapshotQuery(this.#call, { ...this.#wanted, ...slice });
    const reply = await askForPiece(this.#call, this.#response, query);
    if (reply === undefined) return undefined;
    if (reply.code === 0) return reply;
    this.#response.refusal(reply);
    return undefined;
  }
}

/** A copy of the reply, whose memory is used again. Undefined: the request has been answered, or its client is gone. */
export function askForPiece(
  call: RequestContext,
  response: StreamingResponse,
  query: Request,
): Promise<Reply | undefined> {
  return new Promise((resolve) => {
    const handler: ReplyHandler = {
      get requestId() {
        return call.requestId;
      },
      onReply: (reply) => {
        const { body } = reply;
        const kept = { body: reply.isBodyKept ? body : body && ownCopy(body) };
        resolve(response.isOver ? undefined : Object.assign(new Reply(), reply, kept));
      },
    };
    if (call.gateway.send(query, handler)) return;
    response.fail('SHARD_BUSY');
    resolve(undefined);
  });
}
