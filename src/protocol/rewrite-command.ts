/** A command with another payload or other attributes, which a leader proposes after normalising a client's command. */
import { assert } from '../base/assert.ts';
import { ATTRIBUTES_PART, COMMAND } from './command-layout.ts';
import { type Command, FLAG_ATTRS, FLAG_RECORDS } from './command.ts';

const HEAD = COMMAND.fields;

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
    const partAt = offset + (command.keyAt - command.offset) - ATTRIBUTES_PART.size;
    ATTRIBUTES_PART.fields.attributesBytes.set(view, partAt, attributes.length);
  }
  bytes.set(payload, at);
  at += payload.length;
  HEAD.payloadBytes.set(view, offset, payload.length);
  if (ends === undefined) {
    HEAD.recordCount.set(view, offset, 0);
  } else {
    flags |= FLAG_RECORDS;
    HEAD.recordCount.set(view, offset, ends.length);
    for (const end of ends) {
      view.setUint32(at, end, true);
      at += 4;
    }
  }
  HEAD.flags.set(view, offset, flags);
  return at - offset;
}
