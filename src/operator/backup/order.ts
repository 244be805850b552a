/**
 * In which order groups are sent. Each is sent as of a moment of its own, so what is in one must not speak of what comes too late for
 * another: the cursors of subscriptions go first. An acknowledged offset that lay beyond the tail of a restored stream would make its
 * subscription pass over the next events.
 */
import { fnv1a64mod } from '../../base/hash.ts';
import { LOG } from '../../subscriptions/state/record.ts';

export function sendOrder(groupCount: number): number[] {
  const first = fnv1a64mod(LOG.bucket, LOG.stream, groupCount);
  const all = Array.from({ length: groupCount }, (_, group) => group);
  return [first, ...all.filter((group) => group !== first)];
}
