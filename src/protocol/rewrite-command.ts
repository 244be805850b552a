/** A command with another payload or other attributes, which a leader proposes after normalising a client's command. */
import { assert } from '../base/assert.ts';
import { type Command, FLAG_ATTRS, FLAG_RECORDS } from './command.ts';

export interface Replacement {
  /** Undefined: the command has none. */
  readonly attributes: Uint8Array | undefined;
  readonly payload: Uint8Array;
  /** Record ends; undefined for plain bytes. */
  readonly ends: readonly number[] | undefined;
}

/** Exact size of `command` with another payload and record table; see rewriteCommand. */
export function rewrittenBytes(command: Command, { attributes, payload, ends }: Replacement): number {
  const replaced = (attributes?.length ?? 0) + payload.length + 4 * (ends?.length ?? 0);
  return command.attributesAt - command.offset + replaced;
}

/**
 * Writes `command` at `offset` of `bytes` with other attributes and payload: what the shard proposes after it has
 * normalised JSON or taken a payload from the transfer channel.
 */
export function rewriteCommand(
  command: Command,
  { attributes, payload, ends }: Replacement,
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
