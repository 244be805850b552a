import type { Reply } from '../protocol/reply.ts';

/** Destination of answers and events; the shard implements it over the reply ring. */
export interface ReplySink {
  /** Sends `reply`; its body, if any, is copied. */
  send(reply: Reply): void;
}
