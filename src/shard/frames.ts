/** Request frames that do not come from a main thread: checked when they come from a peer, made here for internal commands. */
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_DELETE,
  COMMAND_DELETE_BUCKET,
  COMMAND_FORK_ABORT,
  COMMAND_FORK_BEGIN,
  COMMAND_FORK_CHECK,
  COMMAND_FORK_DATA,
  COMMAND_FORK_END,
  COMMAND_FORK_PIN,
  COMMAND_FORK_UNPIN,
  COMMAND_FORK_UNPINNED,
  COMMAND_GC_DONE,
  COMMAND_IMPORT_ABORT,
  COMMAND_IMPORT_BEGIN,
  COMMAND_IMPORT_END,
  COMMAND_IMPORT_ROWS,
  COMMAND_PUBLISH_SNAPSHOT,
  COMMAND_PURGE,
  COMMAND_QUOTA,
  COMMAND_RETENTION,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_TOUCH,
  Command,
  KIND_CONDITIONAL,
  newCommandFields,
  writeCommand,
} from '../protocol/command.ts';
import { decodeGcList } from '../protocol/cold.ts';
import { REQUEST_HEAD_BYTES } from '../protocol/request.ts';

/** Commands that a node may forward for its clients. */
const FORWARDED: ReadonlySet<number> = new Set([
  COMMAND_CREATE,
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_DELETE,
  COMMAND_SET_ATTRIBUTES,
  COMMAND_DELETE_BUCKET,
  COMMAND_PUBLISH_SNAPSHOT,
  COMMAND_RETENTION,
  COMMAND_PURGE,
  COMMAND_QUOTA,
  COMMAND_GC_DONE,
  COMMAND_TOUCH,
  COMMAND_IMPORT_BEGIN,
  COMMAND_IMPORT_ROWS,
  COMMAND_IMPORT_END,
  COMMAND_IMPORT_ABORT,
  COMMAND_FORK_BEGIN,
  COMMAND_FORK_PIN,
  COMMAND_FORK_DATA,
  COMMAND_FORK_END,
  COMMAND_FORK_ABORT,
  COMMAND_FORK_UNPIN,
  COMMAND_FORK_UNPINNED,
  COMMAND_FORK_CHECK,
]);
/** Head of a request and the fixed part of a command. */
const FRAME_BYTES_MIN = REQUEST_HEAD_BYTES + 24;

/** Views of the whole memory in which a frame lies: made once for all the frames that came with one read of a socket. */
export class WholeBuffer {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(this.bytes.buffer);

  of(part: Uint8Array): this {
    if (part.buffer !== this.bytes.buffer) {
      this.bytes = new Uint8Array(part.buffer);
      this.view = new DataView(part.buffer);
    }
    return this;
  }
}

/** Of the command in a frame that has one, whether or not it has a condition. */
export function commandKind(frame: Uint8Array): number {
  return (frame[REQUEST_HEAD_BYTES] as number) & ~KIND_CONDITIONAL;
}

/** Reused: one check at a time. */
const checked = new Command();

/** True for a whole command frame with its payload inside; anything else from a peer is dropped. `bytes`, `view`: around it. */
export function isCommandFrame(bytes: Uint8Array, view: DataView, frame: Uint8Array): boolean {
  if (frame.length < FRAME_BYTES_MIN || !FORWARDED.has(commandKind(frame))) return false;
  const at = frame.byteOffset + REQUEST_HEAD_BYTES;
  try {
    checked.read(bytes, view, at);
    if (checked.end > frame.byteOffset + frame.length || checked.recordCount > 0) return false;
    // The state machine takes this list for one of its own leader.
    if (checked.kind === COMMAND_GC_DONE) decodeGcList(bytes.subarray(checked.payloadAt, checked.endsAt));
    return true;
  } catch {
    return false;
  }
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
