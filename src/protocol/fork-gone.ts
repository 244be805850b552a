/** The answer of any operation that removes a fork permanently: its source must be notified (forks/service/). */
import { A, B, TEXT } from './generic-fields.ts';
import type { ResultCodec } from './operation.ts';

export interface ForkGone {
  readonly token: number;
  /** Key of the source: bucket, NUL, stream. */
  readonly source: string;
}

/** Undefined: no fork is gone. */
export const FORK_GONE: ResultCodec<ForkGone | undefined> = {
  write(reply, gone) {
    if (gone === undefined) return;
    reply[A] = gone.token;
    reply[B] = 1;
    reply[TEXT] = gone.source;
  },
  read: (reply) => (reply[B] === 1 ? { token: reply[A], source: reply[TEXT] } : undefined),
};
