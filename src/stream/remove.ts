/** Removes a stream, with what others know of it. */
import { planted } from '../base/planted.ts';
import { unlistHot } from '../cold/state/hot.ts';
import { releaseChunks } from '../cold/state/release.ts';
import type { Unpin } from '../forks/state/rows.ts';
import type { Head } from './head.ts';
import { expiryKey } from './keys.ts';
import type { State } from './state.ts';

/**
 * Removes a stream and adjusts its bucket's gauges. What it has in the cold store is given back, as far as the command may
 * (State.releaseLeft) at once. While forks of it live its name stays taken. `erase`: without the grace for reads that are under
 * way, and whatever forks it has; their pins are gone already. Returns who is to be told that a fork is gone.
 */
export function removeStream(state: State, head: Head, nowMs: number, erase = false): Unpin | undefined {
  const bucket = state.buckets.of(state.tx, head.key, 0, head.bucketBytes);
  bucket.streamCount--;
  bucket.retainedBytes -= head.tail - head.floor;
  state.buckets.touch(bucket);
  // Its place in the expiry index too: a deadline in the far future would keep the row until then.
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
