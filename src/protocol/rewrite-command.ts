/** A command with another payload or other attributes, which a leader proposes after normalising a client's command. */
import { assert } from '../base/assert.ts';
import { type Command, FLAG_ATTRS, FLAG_RECORDS } from './command.ts';

/** Exact size of `command` with another payload and record table; see rewriteCommand. */
export function rewrittenBytes(command: Command, attributes: number, payload: number, records: number): number {
  return command.attributesAt - command.offset + attributes + payload + 4 * records;
}

/**
 * Writes `command` at `offset` of `bytes` with other attributes and payload: what the shard proposes after it has
 * normalised JSON or taken a payload from the lane. `ends` are the record ends, undefined for plain bytes.
 */
export function rewriteCommand(
  command: Command,
  attributes: Uint8Array | undefined,
  payload: Uint8Array,
  ends: readonly number[] | undefined,
  bytes: Uint8Array,
  view: DataView,
  offset: number,
): number {
  assert(command.has(FLAG_ATTRS) === (attributes !== undefined), 'attributes are replaced, never added or dropped');
  const front = command.attributesAt - command.offset;
  bytes.set(command.bytes.subarray(command.offset, command.attributesAt), offset);
  let at = offset + front;
  let flags = command.flags;
  if (attributes !== undefined) {
    bytes.set(attributes, at);
    at += attributes.length;
    // The attribute size is the last optional part, right before the key.
    view.setUint32(offset + (command.keyAt - command.offset) - 4, attributes.length, true);
  }
  bytes.set(payload, at);
  at += payload.length;
  view.setUint32(offset + 16, payload.length, true);
  if (ends === undefined) {
    view.setUint32(offset + 20, 0, true);
  } else {
    flags |= FLAG_RECORDS;
    view.setUint32(offset + 20, ends.length, true);
    for (const end of ends) {
      view.setUint32(at, end, true);
      at += 4;
    }
  }
  view.setUint16(offset + 2, flags, true);
  return at - offset;
}
