/**
 * The leader's answer to a write that carries a gate's mark (gateway/quota-gate.ts), given before the write is
 * proposed.
 */
import type { State } from '../stream/core/state.ts';
import type { Command } from '../protocol/command.ts';
import { QUOTA_OVER, QUOTA_UNKNOWN } from '../protocol/request.ts';
import { wouldAddBytes } from './would-add-bytes.ts';

export function quotaRefusal(
  mark: number,
  state: State,
  command: Command,
  payloadBytes: number,
  nowMs: number,
): 'QUOTA_EXCEEDED' | 'QUOTA_UNKNOWN' | undefined {
  if (mark === QUOTA_OVER) return wouldAddBytes(state, command, payloadBytes, nowMs) ? 'QUOTA_EXCEEDED' : undefined;
  if (mark !== QUOTA_UNKNOWN || !isBounded(state, command)) return undefined;
  return wouldAddBytes(state, command, payloadBytes, nowMs) ? 'QUOTA_UNKNOWN' : undefined;
}

function isBounded(state: State, { bytes, keyAt }: Command): boolean {
  const bucket = state.buckets.of(state.tx, bytes, keyAt, bytes.indexOf(0, keyAt) - keyAt);
  return bucket.streamsMax >= 0 || bucket.retainedBytesMax >= 0;
}
