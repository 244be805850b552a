/** Removes a stream and the rows of others that refer to it. */
import { planted } from '../../base/planted.ts';
import { unlistHot } from '../cold/hot.ts';
import { releaseChunks } from '../cold/release.ts';
import type { Unpin } from '../core/fork-rows.ts';
import type { Head } from '../core/head.ts';
import { expiryKey } from '../core/keys.ts';
import type { State } from '../core/state.ts';

/**
 * Removes a stream and adjusts its bucket's gauges. Its cold chunks are released, immediately as far as the command may
 * (State.releaseLeft). While it has live forks its name stays taken. `erase` skips the grace period for running reads
 * and ignores forks, whose pins are already gone. Returns the source to notify when the stream was a fork.
 */
export function removeStream(state: State, head: Head, nowMs: number, erase = false): Unpin | undefined {
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  bucket.streamCount--;
  bucket.retainedBytes -= head.tail - head.startOffset;
  state.buckets.touch(bucket);
  // Removes its expiry index entry too; otherwise a deadline far in the future would keep the row until then.
  if (head.indexedDeadlineMs >= 0) {
    state.overlay.delete(expiryKey(state.prefix, head.indexedDeadlineMs, head.incarnation));
  }
  unlistHot(state, head);
  if (head.hotStart > 0) releaseChunks(state, head.incarnation, Infinity, nowMs, erase);
  const unpin = leaveForks(state, head, erase);
  state.remove(head);
  return unpin;
}

function leaveForks({ forks }: State, { key, incarnation, forked, hasPins }: Head, erase: boolean): Unpin | undefined {
  let unpin: Unpin | undefined;
  if (forked) {
    const { token, source } = forks.origin(incarnation);
    unpin = { token, source };
    forks.deleteOrigin(incarnation);
  }
  const isFreed = planted('name-free-while-forks-live') && unpin === undefined;
  if (hasPins && !erase && !isFreed) {
    forks.putTombstone(key, { incarnation, unpin });
    return undefined;
  }
  if (unpin !== undefined) forks.putUnpin(unpin);
  return unpin;
}
