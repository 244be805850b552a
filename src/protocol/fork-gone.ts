/** The answer of any operation that removes a fork permanently: its source must be notified (forks/service/). */
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
    reply.a = gone.token;
    reply.b = 1;
    reply.text = gone.source;
  },
  read: (reply) => (reply.b === 1 ? { token: reply.a, source: reply.text } : undefined),
};
