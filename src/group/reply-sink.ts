import type { Reply } from '../protocol/reply.ts';

/** Where answers and events go; implemented by the shard over the reply ring. */
export interface ReplySink {
  /** Sends what `reply` holds; its body, if any, is copied. */
  send(reply: Reply): void;
}
