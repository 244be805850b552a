/**
 * Bucket quotas. Each group keeps the bound and never exceeds it alone; the sum over all groups is enforced elsewhere.
 */
import { planted } from '../../base/planted.ts';
import { decodeQuota } from '../../protocol/bucket-command.ts';
import type { Command } from '../../protocol/command.ts';
import type { Reply } from '../../protocol/reply.ts';
import { refuse } from './append.ts';
import type { State } from '../core/state.ts';

export function applyQuota(state: State, command: Command, reply: Reply): void {
  const quota = decodeQuota(command.payload());
  if (quota === undefined) return refuse(reply, 'INTERNAL');
  const bucket = state.buckets.of(state.tx, command.bytes, command.keyAt, command.keyBytes);
  if (bucket.streamsMax === quota.streamsMax && bucket.retainedBytesMax === quota.retainedBytesMax) return;
  bucket.streamsMax = quota.streamsMax;
  bucket.retainedBytesMax = quota.retainedBytesMax;
  if (!planted('quota-not-stored')) state.buckets.touch(bucket);
}
