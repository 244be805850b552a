/** Request frames that do not come from the main thread: checked for peers, built here for internal commands. */
import { byteAt } from '../base/bytes.ts';
import { COMMAND } from '../protocol/command-layout.ts';
import { Command, KIND_MASK, writeKeyCommand } from '../protocol/command.ts';
import { BODY_AS_SENT, isCheckedBody } from '../protocol/checked-body.ts';
import { REQUEST, REQUEST_HEAD_BYTES, bodyMark } from '../protocol/request.ts';
import type { CommandTraits } from '../protocol/operation.ts';
import { COMMANDS, byNumber, commandsWhere } from '../protocol/operations.ts';

/** Commands that a node may forward for its clients. */
const FORWARDABLE = commandsWhere(({ forwardable }) => forwardable);

const TRAITS = byNumber<CommandTraits>(COMMANDS);
/** Request header and the fixed part of a command. */
const FRAME_BYTES_MIN = REQUEST_HEAD_BYTES + COMMAND.size;

/** Views of the whole memory block around a frame, created once for all frames of one socket read. */
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

/** Kind of the command in a frame, conditional or not. */
export function commandKind(frame: Uint8Array): number {
  return kindAndFlags(frame) & KIND_MASK;
}

/** With what makes it conditional. */
export function kindAndFlags(bytes: Uint8Array, offset = 0): number {
  return byteAt(bytes, offset + REQUEST_HEAD_BYTES);
}

/** Reused: one check at a time. */
const checked = new Command();

/** True for a complete command frame with payload; a peer's other bytes are dropped. `bytes`, `view`: around it. */
export function isCommandFrame(bytes: Uint8Array, view: DataView, frame: Uint8Array): boolean {
  if (frame.length < FRAME_BYTES_MIN || !FORWARDABLE.has(commandKind(frame))) return false;
  const at = frame.byteOffset + REQUEST_HEAD_BYTES;
  try {
    checked.read(bytes, view, at);
    if (checked.end > frame.byteOffset + frame.length || checked.recordCount > 0) return false;
    const mark = bodyMark(view, at);
    if (mark !== BODY_AS_SENT && !isCheckedBody(checked.payload(), mark)) return false;
    TRAITS[checked.kind]?.checkForwarded?.(bytes.subarray(checked.payloadAt, checked.endsAt));
    return true;
  } catch {
    return false;
  }
}

/** The renewal of a stream's lifetime as a request frame. */
export function touchFrame(group: number, key: Uint8Array): Uint8Array {
  const frame = new Uint8Array(FRAME_BYTES_MIN + 64 + key.length);
  const view = new DataView(frame.buffer);
  REQUEST.fields.op.set(view, 0, COMMANDS.touch.number);
  REQUEST.fields.group.set(view, 0, group);
  const size = writeKeyCommand(COMMANDS.touch.number, key, frame, view, REQUEST_HEAD_BYTES);
  return frame.subarray(0, REQUEST_HEAD_BYTES + size);
}
