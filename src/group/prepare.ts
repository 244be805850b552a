/**
 * The leader's preparation of a command before it enters the log: normalises JSON and attributes, so that replicas
 * store the same bytes without parsing again. Refusals here say what to change.
 */
import { type ErrorCode, errorNumber } from '../base/errors.ts';
import { RECORDS_PER_REQUEST_MAX } from '../base/limits.ts';
import { parseAttributes } from '../json/attributes.ts';
import { FRAME_HEAD_BYTES, batchShape, frameEnd, joinFrames } from '../protocol/append-batch.ts';
import { type Command, FLAG_ATTRS } from '../protocol/command.ts';
import type { CommandSink } from './entry.ts';
import {
  BODY_AS_SENT,
  BODY_REFUSED,
  type BodyRecords,
  type BodyRefusal,
  decodeRecords,
  decodeRefusal,
} from '../protocol/checked-body.ts';
import { checkJsonBody } from './json-body.ts';
import { type Reply, explain } from '../protocol/reply.ts';
import type { JsonNormalizer } from '../json/json-records.ts';
import { commandsWhere } from '../protocol/operations.ts';

const NOTHING = new Uint8Array(0);
/** Commands whose payload is a client's body. */
const WITH_BODY = commandsWhere(({ body }) => body !== 'none');
const WITH_FRAMES = commandsWhere(({ body }) => body === 'frames');
const MAY_BRING_NO_RECORDS = commandsWhere(({ mayBringNoRecords }) => mayBringNoRecords);
const JSON_TYPE = 'application/json';

/**
 * Adds `command` to the entry under construction. Returns false when it is refused, with code and text in the reply.
 * `mark`: what the payload is.
 */
export function prepare(
  command: Command,
  nowMs: number,
  entry: CommandSink,
  reply: Reply,
  mark: number = BODY_AS_SENT,
): boolean {
  const json = command.payloadBytes > 0 && carriesRecords(command);
  const attributes = command.has(FLAG_ATTRS);
  // The receiving node checked this already; the check here covers commands forwarded by other nodes.
  if (WITH_FRAMES.has(command.kind) && batchShape(command.payload()) !== 'ok') {
    return refuseWith(reply, 'INVALID_BATCH', '');
  }
  if (!json && !attributes && command.transferred === undefined) {
    entry.add(command, nowMs);
    return true;
  }
  let payload = command.payload();
  let ends: BodyRecords['ends'] | undefined;
  if (json && WITH_FRAMES.has(command.kind)) {
    const result = normalizeBatch(payload, entry.json);
    if (!result.ok) return refuseWith(reply, result.code, result.reason);
    payload = result.bytes;
    ends = result.ends;
  } else if (json) {
    const result = recordsOf(command, payload, entry.json, mark);
    if ('code' in result) return refuseWith(reply, result.code, result.reason);
    payload = command.transferred === undefined && mark !== BODY_AS_SENT ? result.bytes.slice() : result.bytes;
    if (result.ends.length > 0) ends = result.ends;
  }
  let encoded: Uint8Array | undefined;
  if (attributes) {
    const text = command.bytes.subarray(command.attributesAt, command.attributesAt + command.attributesBytes);
    const result = parseAttributes(text, entry.json);
    if (!result.ok) return refuseWith(reply, 'INVALID_ATTRIBUTES', result.reason);
    encoded = result.encoded;
  }
  entry.addRewritten(command, nowMs, { attributes: encoded, payload, ends });
  return true;
}

function recordsOf(
  { kind }: Command,
  payload: Uint8Array,
  json: JsonNormalizer,
  mark: number,
): BodyRecords | BodyRefusal {
  if (mark === BODY_REFUSED) return decodeRefusal(payload);
  if (mark === BODY_AS_SENT) return checkJsonBody(payload, json, MAY_BRING_NO_RECORDS.has(kind));
  return decodeRecords(payload) ?? { code: 'INVALID_JSON', reason: 'its records do not end where they should' };
}

/** A payload sent as application/json is records; types arrive normalised, so only `;` may stand behind the name. */
function carriesRecords(command: Command): boolean {
  if (!WITH_BODY.has(command.kind)) return false;
  if (command.contentTypeBytes < JSON_TYPE.length) return false;
  for (let i = 0; i < JSON_TYPE.length; i++) {
    if (command.bytes[command.contentTypeAt + i] !== JSON_TYPE.charCodeAt(i)) return false;
  }
  const behind = command.bytes[command.contentTypeAt + JSON_TYPE.length];
  return command.contentTypeBytes === JSON_TYPE.length || behind === 0x3b;
}

function refuseWith(reply: Reply, code: ErrorCode, text: string): false {
  reply.code = errorNumber(code);
  explain(reply, text);
  return false;
}

type BatchResult =
  | { readonly ok: true; readonly bytes: Uint8Array; readonly ends: readonly number[] }
  | { readonly ok: false; readonly code: ErrorCode; readonly reason: string };

/**
 * Normalises the JSON frames of an append-batch, all or none: the frames of `payload` with normalised lines, and the
 * record ends in them. Empty frames stay, because each is refused individually.
 */
function normalizeBatch(payload: Uint8Array, json: JsonNormalizer): BatchResult {
  const frames: Uint8Array[] = [];
  const ends: number[] = [];
  let front = 0;
  for (let at = 0; at < payload.length; at = frameEnd(payload, at)) {
    const body = payload.subarray(at + FRAME_HEAD_BYTES, frameEnd(payload, at));
    front += FRAME_HEAD_BYTES;
    if (body.length === 0) {
      frames.push(NOTHING);
      continue;
    }
    const result = json.records(body);
    const which = `frame ${frames.length}`;
    if (!result.ok) return { ok: false, code: 'INVALID_JSON', reason: `${which}: ${result.reason}` };
    if (result.ends.length === 0) return { ok: false, code: 'EMPTY_JSON_ARRAY', reason: which };
    for (const end of result.ends) ends.push(front + end);
    if (ends.length > RECORDS_PER_REQUEST_MAX) return { ok: false, code: 'TOO_MANY_RECORDS', reason: '' };
    frames.push(result.bytes);
    front += result.bytes.length;
  }
  return { ok: true, bytes: joinFrames(frames), ends };
}
