/**
 * What the leader of a group has to do for forks: tell sources that a fork is gone, and ask now and then after those that are
 * kept. The second is needed when a pin came after its fork was given up, or groups were restored from different moments.
 */
import { readText } from '../../base/text.ts';
import type { State } from '../../stream/state.ts';
import type { Unpin } from './rows.ts';

export interface ForkErrand {
  readonly token: number;
  /** bucket, NUL, stream. */
  readonly source: string;
}

export interface ForkQuestion extends ForkErrand {
  readonly fork: string;
  readonly incarnation: number;
}

/** From `token` on, and then those before it: what cannot be done now shall not stand in front of the others for ever. */
export function errands(state: State, most: number, token = 0): ForkErrand[] {
  const found: ForkErrand[] = [];
  const take = (unpin: Unpin): boolean => found.push({ token: unpin.token, source: text(unpin.source) }) < most;
  state.forks.eachUnpin(token, take);
  if (found.length < most) state.forks.eachUnpin(0, (unpin) => unpin.token < token && take(unpin));
  return found;
}

/** Pins from (incarnation, token) on in the order of their keys. */
export function questions(state: State, incarnation: number, token: number, most: number): ForkQuestion[] {
  const found: ForkQuestion[] = [];
  state.forks.eachPin(incarnation, token, ({ fork, source }, place) => {
    return found.push({ ...place, source: text(source), fork: text(fork) }) < most;
  });
  return found;
}

function text(key: Uint8Array): string {
  return readText(key, 0, key.length);
}
