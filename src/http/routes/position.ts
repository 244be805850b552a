/**
 * Positions of snapshots and of the retention floor: `/{offset}` or `?record=`; and the command about one, which may
 * need a border looked up in the cold store before the state machine can take it (protocol/position-command.ts).
 */
import { errorNumber } from '../../base/errors.ts';
import { decodeUrlPart, parseUint53 } from '../../protocol/header-values.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { type Position } from '../../protocol/position-command.ts';
import type { Reply } from '../../protocol/reply.ts';
import { type Request, requestFor } from '../../protocol/request.ts';
import { declaredBytes } from '../headers.ts';
import { type QueryResult, collect } from '../../protocol/query-string.ts';
import type { BodyConsumer, ReplyRenderer, RequestContext } from '../request.ts';
import { writeRecordRange } from '../response.ts';
import type { UwsResponse } from '../uws.ts';
import { READ_FLAG_NO_TOUCH, READ_FLAG_PARTS, readIncarnation } from '../../protocol/queries/read.ts';
import { READ_OFFSET, READ_RECORD } from '../../protocol/read-fields.ts';

const BORDER_UNCHECKED = errorNumber('BORDER_UNCHECKED');
const POSITION_INSIDE_MESSAGE = errorNumber('POSITION_INSIDE_MESSAGE');
const OFFSET_INSIDE_RECORD = errorNumber('OFFSET_INSIDE_RECORD');
/** A border that was looked up is stale only when the stream was recreated meanwhile. */
const LOOK_UPS_MAX = 3;
const RECORD: ReadonlySet<string> = new Set(['record']);

/** `segment` as it stands in the path, empty when there is none. */
export function parsePosition(segment: string, query: string | undefined): QueryResult<Position> {
  const unchecked = { checkedIncarnation: 0, checkedOffset: 0, checkedRecord: 0 };
  const collected = collect(query ?? '', RECORD);
  if (!collected.ok) return collected;
  const text = collected.value.get('record');
  if (segment !== '') {
    if (text !== undefined) return { ok: false, reason: 'name one position: /{offset} in the path, or ?record=' };
    const offset = parseUint53(decodeUrlPart(segment) ?? '', 'the offset');
    return offset.ok ? { ok: true, value: { byRecord: false, value: offset.value, ...unchecked } } : offset;
  }
  if (text === undefined) return { ok: false, reason: 'name a position: /{offset} in the path, or ?record=' };
  const record = parseUint53(text, 'record');
  return record.ok ? { ok: true, value: { byRecord: true, value: record.value, ...unchecked } } : record;
}

/** A request whose command names a position. */
export abstract class PositionCommand implements BodyConsumer, ReplyRenderer {
  protected position: Position;
  #lookingUp = false;
  #lookUps = 0;

  constructor(position: Position) {
    this.position = position;
  }

  /** Says what stands at `position`. */
  protected abstract command(call: RequestContext): Request;
  abstract consume(call: RequestContext, body: Uint8Array): void;
  abstract render(call: RequestContext, res: UwsResponse, reply: Reply): number;

  protected sendCommand(call: RequestContext): void {
    call.send(this.command(call), this, call.server.writes);
  }

  intercept(call: RequestContext, reply: Reply): boolean {
    if (call.isOver) return false;
    if (this.#lookingUp) return this.#lookedUp(call, reply);
    if (reply.code !== BORDER_UNCHECKED || this.#lookUps === LOOK_UPS_MAX) return false;
    this.#lookingUp = true;
    this.#lookUps++;
    const { group, bucket, stream } = call;
    const { byRecord, value } = this.position;
    const query = requestFor(QUERIES.read, group, {
      ...{ bucket, stream, mode: byRecord ? READ_RECORD : READ_OFFSET, value, maxRecords: 1, maxBytes: 1 },
      readFlags: READ_FLAG_PARTS | READ_FLAG_NO_TOUCH,
    });
    call.send(query, this);
    return true;
  }

  #lookedUp(call: RequestContext, reply: Reply): boolean {
    this.#lookingUp = false;
    if (reply.code !== 0) {
      if (reply.code === OFFSET_INSIDE_RECORD) reply.code = POSITION_INSIDE_MESSAGE;
      return false;
    }
    this.position = {
      ...this.position,
      checkedIncarnation: readIncarnation(reply),
      checkedOffset: reply.startOffset,
      checkedRecord: reply.recordStart,
    };
    this.sendCommand(call);
    return true;
  }
}

/** PUT /{bucket}/{stream}/retention/{offset} or ?record=: raises the retention floor up to the published snapshot. */
export function handleRetention(call: RequestContext): void {
  const position = parsePosition(call.path.detail, call.req.getQuery());
  if (!position.ok) return call.refuse('INVALID_POSITION', position.reason);
  const retention = new Retention(position.value);
  return call.readBody(declaredBytes(call.req.getHeader('content-length')), retention);
}

class Retention extends PositionCommand {
  /** A body means nothing here. */
  override consume(call: RequestContext): void {
    this.sendCommand(call);
  }

  protected override command({ group, bucket, stream }: RequestContext): Request {
    return requestFor(COMMANDS.retention, group, { bucket, stream, position: this.position });
  }

  override render(call: RequestContext, res: UwsResponse, reply: Reply): number {
    const { responder } = call;
    responder.begin(res, 204);
    res.writeHeader('stream-retained-offset', String(reply.startOffset));
    writeRecordRange(res, reply);
    res.endWithoutBody();
    return 204;
  }
}
