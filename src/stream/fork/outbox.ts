/**
 * What the leader of a group has to do for forks: tell sources that a fork is gone, and ask now and then after those that are
 * kept. The second is needed when a pin came after its fork was given up, or groups were restored from different moments.
 */
import { readText } from '../../wire/text.ts';
import type { State } from '../state.ts';

export interface ForkErrand {
  readonly token: number;
  /** bucket, NUL, stream. */
  readonly source: string;
}

export interface ForkQuestion extends ForkErrand {
  readonly fork: string;
  readonly incarnation: number;
}

export function errands(state: State, most: number): ForkErrand[] {
  const found: ForkErrand[] = [];
  state.forks.eachUnpin(({ token, source }) => found.push({ token, source: text(source) }) < most);
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
