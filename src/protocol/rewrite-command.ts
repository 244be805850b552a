/** A command with another payload or other attributes, which a leader proposes after normalising a client's command. */
import { assert } from '../base/assert.ts';
import { ATTRIBUTES_PART, COMMAND } from './command-layout.ts';
import { type Command, FLAG_ATTRS, FLAG_RECORDS } from './command.ts';

const HEAD = COMMAND.fields;
const END_BYTES = 4;

export interface Replacement {
  /** Undefined: the command has none. */
  readonly attributes: Uint8Array | undefined;
  readonly payload: Uint8Array;
  /** Record ends; undefined for plain bytes. */
  readonly ends: readonly number[] | Uint32Array | undefined;
}

/** Exact size of `command` with another payload and record table; see rewriteCommand. */
export function rewrittenBytes(command: Command, { attributes, payload, ends }: Replacement): number {
  return frontBytes(command, attributes) + payload.length + endsBytes(ends);
}

/** Size of everything before the payload. */
export function frontBytes(command: Command, attributes: Uint8Array | undefined): number {
  return command.attributesAt - command.offset + (attributes?.length ?? 0);
}

export function endsBytes(ends: Replacement['ends']): number {
  return END_BYTES * (ends?.length ?? 0);
}

/**
 * Writes `command` at `offset` of `bytes` with other attributes and payload: what the shard proposes after it has
 * normalised JSON or taken a payload from the transfer channel.
 */
export function rewriteCommand(
  command: Command,
  replacement: Replacement,
  bytes: Uint8Array,
  view: DataView,
  offset: number,
): number {
  const { payload, ends } = replacement;
  let at = writeFront(command, replacement, bytes, view, offset);
  bytes.set(payload, at);
  at += payload.length;
  writeEnds(ends, view, at);
  return at + endsBytes(ends) - offset;
}

/** Writes everything before the payload; returns where that begins. */
export function writeFront(
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
  if (attributes !== undefined) {
    bytes.set(attributes, at);
    at += attributes.length;
    // The attribute size is the last optional part, right before the key.
    const partAt = offset + (command.keyAt - command.offset) - ATTRIBUTES_PART.size;
    ATTRIBUTES_PART.fields.attributesBytes.set(view, partAt, attributes.length);
  }
  HEAD.payloadBytes.set(view, offset, payload.length);
  HEAD.recordCount.set(view, offset, ends?.length ?? 0);
  HEAD.flags.set(view, offset, ends === undefined ? command.flags : command.flags | FLAG_RECORDS);
  return at;
}

/** The table of record ends, behind the payload. */
export function writeEnds(ends: Replacement['ends'], view: DataView, tableAt: number): void {
  let at = tableAt;
  for (const end of ends ?? []) {
    view.setUint32(at, end, true);
    at += END_BYTES;
  }
}
