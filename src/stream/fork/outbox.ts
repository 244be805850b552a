/**
 * What the leader of a group has to do for forks: tell sources that a fork is gone, and ask after the forks of streams that are
 * gone. The second is needed when a pin came after its fork was given up, or groups were restored from different moments.
 */
import { readText } from '../../wire/text.ts';
import { compareBytes } from '../keys.ts';
import type { State } from '../state.ts';

export interface ForkErrand {
  readonly token: number;
  /** bucket, NUL, stream. */
  readonly source: string;
}

export interface ForkQuestion extends ForkErrand {
  readonly fork: string;
}

export function errands(state: State, most: number): ForkErrand[] {
  const found: ForkErrand[] = [];
  state.forks.eachUnpin(({ token, source }) => found.push({ token, source: text(source) }) < most);
  return found;
}

/** Pins of removed streams, from (source, token) on in the order of their keys. */
export function questions(state: State, source: Uint8Array, token: number, most: number): ForkQuestion[] {
  const found: ForkQuestion[] = [];
  state.forks.eachTombstone(new Uint8Array(0), source, (key, stone) => {
    const name = text(key);
    const isFirst = compareBytes(key, source) === 0;
    state.forks.eachPin(
      stone.incarnation,
      (pin, fork) => found.push({ token: pin, source: name, fork: text(fork) }) < most,
      isFirst ? token : 0,
    );
    return found.length < most;
  });
  return found;
}

function text(key: Uint8Array): string {
  return readText(key, 0, key.length);
}
