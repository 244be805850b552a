/**
 * Positions of snapshots and of the retention floor: `/{offset}` or `?record=`; and the command about one, which may need a border
 * looked up in the cold store before the state machine can take it (protocol/position-command.ts).
 */
import { errorNumber } from '../../base/errors.ts';
import { decodePathSegment, parseOrdinal, parseUint53 } from '../../protocol/header-values.ts';
import type { Position } from '../../protocol/position-command.ts';
import type { Reply } from '../../protocol/reply.ts';
import {
  READ_FLAG_NO_TOUCH,
  READ_FLAG_PARTS,
  READ_OFFSET,
  READ_RECORD,
  type Request,
  newRequest,
} from '../../protocol/request.ts';
import { BodyExchange } from '../body.ts';
import type { Plane } from '../plane.ts';
import { type QueryResult, collect } from '../query.ts';
import { QUERIES } from '../../protocol/operations.ts';

const BORDER_UNCHECKED = errorNumber('BORDER_UNCHECKED');
const POSITION_INSIDE_MESSAGE = errorNumber('POSITION_INSIDE_MESSAGE');
const OFFSET_INSIDE_RECORD = errorNumber('OFFSET_INSIDE_RECORD');
/** What was looked up is stale only when the stream was made anew meanwhile. */
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
    const offset = parseUint53(decodePathSegment(segment) ?? '', 'the offset');
    return offset.ok ? { ok: true, value: { byRecord: false, value: offset.value, ...unchecked } } : offset;
  }
  if (text === undefined) return { ok: false, reason: 'name a position: /{offset} in the path, or ?record=' };
  const record = parseOrdinal(text, 'record');
  return record.ok ? { ok: true, value: { byRecord: true, value: record.value, ...unchecked } } : record;
}

/** A request whose command names a position. */
export abstract class PositionExchange extends BodyExchange {
  readonly request = newRequest();
  protected position: Position;
  #lookingUp = false;
  #lookUps = 0;

  constructor(plane: Plane, op: number, bucket: string, stream: string, position: Position) {
    super(plane);
    this.position = position;
    this.request.op = op;
    this.request.command.kind = op;
    this.request.command.bucket = bucket;
    this.request.command.stream = stream;
    this.request.group = plane.ctx.gateway.groupOf(bucket, stream);
  }

  /** Puts `position` into the command's payload. */
  protected abstract fill(request: Request): void;

  protected sendCommand(): void {
    this.fill(this.request);
    this.send(this.request);
  }

  override onReply(reply: Reply): void {
    if (this.res === undefined) return super.onReply(reply);
    if (this.#lookingUp) return this.#lookedUp(reply);
    if (reply.code !== BORDER_UNCHECKED || this.#lookUps === LOOK_UPS_MAX) return super.onReply(reply);
    this.#lookingUp = true;
    this.#lookUps++;
    const query = newRequest();
    query.op = QUERIES.read.number;
    query.group = this.request.group;
    query.command.bucket = this.request.command.bucket;
    query.command.stream = this.request.command.stream;
    query.mode = this.position.byRecord ? READ_RECORD : READ_OFFSET;
    query.value = this.position.value;
    query.maxRecords = 1;
    query.maxBytes = 1;
    query.readFlags = READ_FLAG_PARTS | READ_FLAG_NO_TOUCH;
    return this.send(query);
  }

  #lookedUp(reply: Reply): void {
    this.#lookingUp = false;
    if (reply.code !== 0) {
      if (reply.code === OFFSET_INSIDE_RECORD) reply.code = POSITION_INSIDE_MESSAGE;
      return super.onReply(reply);
    }
    this.position = {
      ...this.position,
      checkedIncarnation: reply.a,
      checkedOffset: reply.startOffset,
      checkedRecord: reply.recordStart,
    };
    return this.sendCommand();
  }
}
