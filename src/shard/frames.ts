/** Request frames that do not come from a main thread: checked when they come from a peer, made here for internal commands. */
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_DELETE,
  COMMAND_DELETE_BUCKET,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_TOUCH,
  Command,
  newCommandFields,
  writeCommand,
} from '../wire/command.ts';
import { REQUEST_HEAD_BYTES } from '../wire/request.ts';

/** Commands that a node may forward for its clients. */
const FORWARDED: ReadonlySet<number> = new Set([
  COMMAND_CREATE,
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_DELETE,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_DELETE_BUCKET,
  COMMAND_TOUCH,
]);
/** Head of a request and the fixed part of a command. */
const FRAME_BYTES_MIN = REQUEST_HEAD_BYTES + 24;

/** True for a whole command frame with its payload inside; anything else from a peer is dropped. */
export function isCommandFrame(frame: Uint8Array): boolean {
  if (frame.length < FRAME_BYTES_MIN || !FORWARDED.has(frame[REQUEST_HEAD_BYTES] as number)) return false;
  const command = new Command();
  try {
    command.read(frame, new DataView(frame.buffer, frame.byteOffset, frame.length), REQUEST_HEAD_BYTES);
  } catch {
    return false;
  }
  return command.end <= frame.length && command.recordCount === 0;
}

/** The renewal of a stream's lifetime as a request frame. */
export function touchFrame(group: number, key: Uint8Array): Uint8Array {
  const fields = newCommandFields();
  fields.kind = COMMAND_TOUCH;
  const frame = new Uint8Array(FRAME_BYTES_MIN + 64 + key.length);
  const view = new DataView(frame.buffer);
  frame[0] = COMMAND_TOUCH;
  view.setUint16(2, group, true);
  const size = writeCommand(fields, frame, view, REQUEST_HEAD_BYTES);
  frame.set(key, REQUEST_HEAD_BYTES + size);
  view.setUint16(REQUEST_HEAD_BYTES + 4, key.length, true);
  return frame.subarray(0, REQUEST_HEAD_BYTES + size + key.length);
}
