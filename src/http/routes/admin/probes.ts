/**
 * Health and readiness, on both planes and without a token: what load balancers ask. Who has the token of the admin plane, or
 * needs none there, is told what is missing; others only whether.
 */
import { type NodeStatus, type RaftGroup, askNodeStatus } from '../../../gateway/node-status.ts';
import type { Refused } from '../../../gateway/shard-client.ts';
import type { ShardGateway } from '../../../ports.ts';
import { type WriteHeaders, writeHeaders } from '../../headers.ts';
import type { AggregateResponse, RequestContext } from '../../request.ts';

/** Does the sender of a request have the plane's token, or does the plane ask for none? */
export type Knows = (headers: WriteHeaders) => boolean;

/** Every shard is asked for an answer, so strangers share one for so long, and all who come meanwhile the one that is under way. */
const SHARED_MS = 1000;

/** What is told, of one question to all shards. */
type Tell = (aggregate: AggregateResponse, detail: 'with-detail' | 'whether') => void;

export function answerHealth(call: RequestContext): void {
  call.json(200, { status: 'up' });
}

export class ReadyProbe {
  readonly #knows: Knows;
  #foundMs = -Infinity;
  /** What was found the last time; undefined before. */
  #isReady: boolean | undefined;
  /** Strangers, while a question of theirs is under way. */
  #waiting: AggregateResponse[] = [];

  constructor(knows: Knows) {
    this.#knows = knows;
  }

  /** 200 when every group has a leader and has applied what it knows to be committed; else 503 and what is missing. */
  answer(call: RequestContext): void {
    const { startedMs } = call;
    const withDetail = this.#knows(writeHeaders());
    const aggregate = call.aggregate();
    if (withDetail) return this.#ask(call, (tell) => tell(aggregate, 'with-detail'));
    if (startedMs - this.#foundMs < SHARED_MS && this.#isReady !== undefined) {
      return tellWhether(aggregate, this.#isReady);
    }
    if (this.#waiting.push(aggregate) > 1) return undefined;
    return this.#ask(call, (tell) => {
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const one of waiting) tell(one, 'whether');
    });
  }

  #ask({ server, gateway, startedMs }: RequestContext, finish: (tell: Tell) => void): void {
    const failed = (error: unknown): Tell => {
      server.logError(error, 'ready');
      return (aggregate) => aggregate.refuse('INTERNAL');
    };
    void askNodeStatus(gateway)
      .then((status) => ('code' in status ? tellRefused(status) : this.#find(gateway, status, startedMs)))
      .catch(failed)
      .then(finish);
  }

  #find(gateway: ShardGateway, { raftGroups }: NodeStatus, startedMs: number): Tell {
    const leaderless = raftGroups.filter((group) => group.leader === null).map((group) => group.raft_group_id);
    const behind = raftGroups.filter(isBehind).map((group) => group.raft_group_id);
    const missing = gateway.groupCount - raftGroups.length;
    const isReady = leaderless.length === 0 && behind.length === 0 && missing === 0;
    this.#foundMs = startedMs;
    this.#isReady = isReady;
    const found = { groups: raftGroups.length, leaderless_groups: leaderless, groups_behind: behind };
    return (aggregate, detail) => tellWhether(aggregate, isReady, detail === 'with-detail' ? found : {});
  }
}

function tellRefused({ code, detail }: Refused): Tell {
  return (aggregate) => aggregate.refuse(code, detail);
}

function tellWhether(aggregate: AggregateResponse, isReady: boolean, detail: object = {}): void {
  const answer = { ready: isReady, ...detail };
  if (isReady) aggregate.json(200, answer);
  else aggregate.unavailable(answer);
}

/** A shard that knows says `caught_up`; a busy group is always a few entries behind its commit index. */
function isBehind(group: RaftGroup): boolean {
  return group['caught_up'] === false;
}
