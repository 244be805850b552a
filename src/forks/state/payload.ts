/** The payload of a command, as a view. */
import type { Command } from '../../protocol/command.ts';

export function payloadOf({ bytes, payloadAt, payloadBytes }: Command): Uint8Array {
  return bytes.subarray(payloadAt, payloadAt + payloadBytes);
}
