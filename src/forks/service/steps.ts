/**
 * Commands and reads of a fork under construction, one at a time. Each may be repeated without harm, so one that finds
 * no leader or no space, or whose outcome is unknown, is retried for a while.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { ShardGateway, WriteGateway } from '../../ports.ts';
import { Reply } from '../../protocol/reply.ts';
import type { Reserved } from '../../gateway/quota-gate.ts';
import type { Request } from '../../protocol/request.ts';
import { type RetryClock, type RetryPolicy, sendUntilDone } from '../../gateway/retry.ts';

/** The service for forks needs these of its surroundings. */
export interface ForkPort {
  readonly gateway: Pick<ShardGateway, 'groupOf' | 'groupCount' | 'shardCount' | 'send'>;
  /** For the commands. */
  readonly writes: Pick<WriteGateway, 'send'>;
  /** Reserves space in the bucket's quota for what a fork inherits. One of the two callbacks is called, later. */
  reserve(bucket: string, bytes: number, done: (room: Reserved) => void, denied: (reply: Reply) => void): void;
  readonly runtime: RetryClock;
  /** An integer from 1 to 2^53 - 1 that no other fork has. */
  newToken(): number;
  /** Maximum size of a piece, unless a message is larger; 0: what one read gives. */
  readonly pieceBytes: number;
}

/** Shorter than the silence that abandons a fork (stream/core/head.ts), including a last attempt of five seconds. */
const PATIENCE_MS = 8000;
const AGAIN_MS = 50;

const PASSING: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'LEADER_BUSY',
  'OUTCOME_UNKNOWN',
  'SHARD_BUSY',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
  'CATCHING_UP',
  'UNCONFIRMED',
  'NOT_APPLIED',
  'COLD_READS_FULL',
  'COLD_UNAVAILABLE',
]);

const POLICY: RetryPolicy = {
  patienceMs: PATIENCE_MS,
  againMs: AGAIN_MS,
  isPassing: (code) => PASSING.has(code),
};

/** `isUnknown`: one of the attempts may have taken effect, or may still do so, whatever the last answer was. */
export type StepDone = (reply: Reply, isUnknown: boolean) => void;

export function step(port: ForkPort, request: Request, done: StepDone): void {
  sendUntilDone({ gateway: port.writes, clock: port.runtime, policy: POLICY }, request, (reply, isUnknown) =>
    done(reply ?? new Reply().refuse(0, 'SHARD_BUSY'), isUnknown),
  );
}
