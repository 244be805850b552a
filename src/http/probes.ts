/**
 * Health and readiness, on both planes and without a token: what load balancers ask. Who has the token of the admin plane, or
 * needs none there, is told what is missing; others only whether.
 */
import { Gathering } from './gather.ts';
import { type RaftGroup, askStatus } from './metrics-route.ts';
import type { ServiceCall } from './service-call.ts';
import { type WriteHeaders, writeHeaders } from './headers.ts';

/** Does the sender of a request have the plane's token, or does the plane ask for none? */
export type Knows = (headers: WriteHeaders) => boolean;

/** Every shard is asked for an answer, so strangers share one for so long. */
const SHARED_MS = 1000;

export function answerHealth({ plane, res, responder, startedMs }: ServiceCall): void {
  responder.json(res, 200, '{"status":"up"}');
  plane.count('other', 200, startedMs);
}

export class ReadyProbe {
  readonly #knows: Knows;
  #foundMs = -Infinity;
  /** What was found the last time; undefined before. */
  #isReady: boolean | undefined;

  constructor(knows: Knows) {
    this.#knows = knows;
  }

  /** 200 when every group has a leader and has applied what it knows to be committed; else 503 and what is missing. */
  answer({ plane, res, responder, startedMs }: ServiceCall): void {
    const withDetail = this.#knows(writeHeaders());
    const gathering = new Gathering(plane, res, responder, 'other', startedMs);
    const isFresh = startedMs - this.#foundMs < SHARED_MS;
    if (!withDetail && isFresh && this.#isReady !== undefined) return tell(gathering, this.#isReady);
    return askStatus(plane, gathering, ({ raftGroups }) => {
      const leaderless = raftGroups.filter((group) => group.leader === null).map((group) => group.raft_group_id);
      const behind = raftGroups.filter(isBehind).map((group) => group.raft_group_id);
      const missing = plane.ctx.gateway.groupCount - raftGroups.length;
      const isReady = leaderless.length === 0 && behind.length === 0 && missing === 0;
      this.#foundMs = startedMs;
      this.#isReady = isReady;
      const detail = { groups: raftGroups.length, leaderless_groups: leaderless, groups_behind: behind };
      tell(gathering, isReady, withDetail ? detail : {});
    });
  }
}

function tell(gathering: Gathering, isReady: boolean, detail: object = {}): void {
  const answer = { ready: isReady, ...detail };
  if (isReady) gathering.json(200, answer);
  else gathering.unavailable(answer);
}

/** A shard that knows says `caught_up`; a busy group is always a few entries behind its commit index. */
function isBehind(group: RaftGroup): boolean {
  return group['caught_up'] === false;
}
