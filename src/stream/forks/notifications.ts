/**
 * A group leader's work for forks: notify sources of removed forks, and occasionally verify the pinned ones.
 * Verification is needed when a pin arrived after its fork was abandoned, or when groups were restored from different
 * times.
 */
import { readText } from '../../base/text.ts';
import type { State } from '../core/state.ts';
import type { Unpin } from '../core/fork-rows.ts';
import type { PendingNotification, PinCheck } from '../../protocol/fork-command.ts';

/** From `token` on, then those before it, so that notifications that cannot be sent now do not block the others. */
export function pendingNotifications(state: State, most: number, token = 0): PendingNotification[] {
  const found: PendingNotification[] = [];
  const take = (unpin: Unpin): boolean => found.push({ token: unpin.token, source: text(unpin.source) }) < most;
  state.forks.eachUnpin(token, take);
  if (found.length < most) state.forks.eachUnpin(0, (unpin) => unpin.token < token && take(unpin));
  return found;
}

/** Pins from (incarnation, token) on in key order. */
export function pinChecks(state: State, incarnation: number, token: number, most: number): PinCheck[] {
  const found: PinCheck[] = [];
  state.forks.eachPin(incarnation, token, ({ fork, source }, place) => {
    return found.push({ ...place, source: text(source), fork: text(fork) }) < most;
  });
  return found;
}

function text(key: Uint8Array): string {
  return readText(key, 0, key.length);
}
