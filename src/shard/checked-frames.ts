/** Requests with a checked body (protocol/checked-body.ts), for a leader of the version before, which knows none. */
import { byteAt, viewOf } from '../base/bytes.ts';
import {
  BODY_AS_SENT,
  BODY_REFUSED,
  type BodyRefusal,
  asJsonArray,
  decodeRecords,
  decodeRefusal,
} from '../protocol/checked-body.ts';
import { COMMAND } from '../protocol/command-layout.ts';
import { Command } from '../protocol/command.ts';
import { REQUEST, REQUEST_FLAGS_CHECKED, REQUEST_HEAD_BYTES, bodyMark, clearBodyMark } from '../protocol/request.ts';

/** Asked of every forwarded request, so it makes no view. */
export function hasCheckedBody(frame: Uint8Array): boolean {
  return (byteAt(frame, REQUEST.fields.flags.at) & REQUEST_FLAGS_CHECKED) !== 0;
}

/** The frame with a plain JSON body; the refusal of its body; or undefined for a frame whose body is as it was sent. */
export function withPlainBody(frame: Uint8Array): Uint8Array | BodyRefusal | undefined {
  const view = viewOf(frame);
  const mark = bodyMark(view, REQUEST_HEAD_BYTES);
  if (mark === BODY_AS_SENT) return undefined;
  const command = new Command();
  command.read(frame, view, REQUEST_HEAD_BYTES);
  if (mark === BODY_REFUSED) return decodeRefusal(command.payload());
  const records = decodeRecords(command.payload());
  if (records === undefined) return undefined;
  const body = asJsonArray(records);
  const plain = new Uint8Array(command.payloadAt + body.length);
  plain.set(frame.subarray(0, command.payloadAt));
  plain.set(body, command.payloadAt);
  const plainView = viewOf(plain);
  clearBodyMark(plainView, REQUEST_HEAD_BYTES);
  COMMAND.fields.payloadBytes.set(plainView, REQUEST_HEAD_BYTES, body.length);
  return plain;
}
