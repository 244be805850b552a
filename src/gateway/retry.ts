/** Repeats a request until it succeeds, for commands that may apply twice. One policy for each kind of work. */
import { type ErrorCode, errorCode } from '../base/errors.ts';
import type { Runtime } from '../base/runtime.ts';
import type { ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';

export interface RetryPolicy {
  /** After this long the last answer is final. */
  readonly patienceMs: number;
  readonly againMs: number;
  /** Whether the failure may be temporary. */
  isPassing(code: ErrorCode): boolean;
}

export type RetryClock = Pick<Runtime, 'monotonicMs' | 'setTimer'>;

/**
 * `reply` is undefined when the mailbox was full until the end, or the caller no longer wanted the answer.
 * `isUnknown`: one of the attempts may have taken effect, or may still do so, whatever the last answer was.
 */
export type Settled = (reply: Reply | undefined, isUnknown: boolean) => void;

export interface Retrying {
  readonly gateway: Pick<ShardGateway, 'send'>;
  readonly clock: RetryClock;
  readonly policy: RetryPolicy;
  /** Tells whether to go on; asked before each repetition. */
  readonly isWanted?: () => boolean;
  /** The shard that is asked for all of its groups; undefined: a group is asked. */
  readonly shard?: number | undefined;
}

export function sendUntilDone(
  { gateway, clock, policy, isWanted, shard }: Retrying,
  request: Request,
  settled: Settled,
): void {
  const untilMs = clock.monotonicMs() + policy.patienceMs;
  let isUnknown = false;
  const again = (): void => {
    if (isWanted?.() === false) settled(undefined, isUnknown);
    else attempt();
  };
  const onReply = (reply: Reply): void => {
    const code = errorCode(reply.code);
    isUnknown ||= code === 'OUTCOME_UNKNOWN';
    if (policy.isPassing(code) && clock.monotonicMs() < untilMs) clock.setTimer(policy.againMs, again);
    else settled(reply, isUnknown);
  };
  const attempt = (): void => {
    if (gateway.send(request, { onReply }, shard)) return;
    if (clock.monotonicMs() < untilMs) clock.setTimer(policy.againMs, again);
    else settled(undefined, isUnknown);
  };
  attempt();
}
