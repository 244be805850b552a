/**
 * Health and readiness, on both planes and without a token: what load balancers ask. Who has the token of the admin plane, or
 * needs none there, is told what is missing; others only whether.
 */
import { newRequest } from '../../../protocol/request.ts';
import { Gathering } from '../../gather.ts';
import type { Plane } from '../../plane.ts';
import { type RaftGroup, mergeStatus } from '../../../gateway/node-status.ts';
import { type Part, askAllShards, firstRefusal } from '../../../gateway/scatter.ts';
import type { ServiceCall } from './service-call.ts';
import { type WriteHeaders, writeHeaders } from '../../headers.ts';
import { QUERIES } from '../../../protocol/operations.ts';

/** Does the sender of a request have the plane's token, or does the plane ask for none? */
export type Knows = (headers: WriteHeaders) => boolean;

/** Every shard is asked for an answer, so strangers share one for so long, and all who come meanwhile the one that is under way. */
const SHARED_MS = 1000;

/** What is told, of one question to all shards. */
type Tell = (gathering: Gathering, withDetail: boolean) => void;

export function answerHealth({ plane, res, responder, startedMs }: ServiceCall): void {
  responder.json(res, 200, '{"status":"up"}');
  plane.count('other', 200, startedMs);
}

export class ReadyProbe {
  readonly #knows: Knows;
  #foundMs = -Infinity;
  /** What was found the last time; undefined before. */
  #isReady: boolean | undefined;
  /** Strangers, while a question of theirs is under way. */
  #waiting: Gathering[] = [];

  constructor(knows: Knows) {
    this.#knows = knows;
  }

  /** 200 when every group has a leader and has applied what it knows to be committed; else 503 and what is missing. */
  answer({ plane, res, responder, startedMs }: ServiceCall): void {
    const withDetail = this.#knows(writeHeaders());
    const gathering = new Gathering(plane, res, responder, 'other', startedMs);
    if (withDetail) return this.#ask(plane, startedMs, (tell) => tell(gathering, true));
    if (startedMs - this.#foundMs < SHARED_MS && this.#isReady !== undefined) {
      return tellWhether(gathering, this.#isReady);
    }
    if (this.#waiting.push(gathering) > 1) return undefined;
    return this.#ask(plane, startedMs, (tell) => {
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const one of waiting) tell(one, false);
    });
  }

  #ask(plane: Plane, startedMs: number, done: (tell: Tell) => void): void {
    const query = newRequest();
    query.op = QUERIES.status.number;
    askAllShards(plane.ctx.gateway, query, (parts) => {
      let tell: Tell;
      try {
        tell = this.#find(plane, parts, startedMs);
      } catch (error) {
        plane.logError(error, 'ready');
        tell = (gathering) => gathering.refuse('INTERNAL');
      }
      done(tell);
    });
  }

  #find(plane: Plane, parts: readonly Part[], startedMs: number): Tell {
    const refused = firstRefusal(parts);
    if (refused !== undefined) return (gathering) => gathering.refuse(refused.code, refused.text);
    const { raftGroups } = mergeStatus(parts);
    const leaderless = raftGroups.filter((group) => group.leader === null).map((group) => group.raft_group_id);
    const behind = raftGroups.filter(isBehind).map((group) => group.raft_group_id);
    const missing = plane.ctx.gateway.groupCount - raftGroups.length;
    const isReady = leaderless.length === 0 && behind.length === 0 && missing === 0;
    this.#foundMs = startedMs;
    this.#isReady = isReady;
    const detail = { groups: raftGroups.length, leaderless_groups: leaderless, groups_behind: behind };
    return (gathering, withDetail) => tellWhether(gathering, isReady, withDetail ? detail : {});
  }
}

function tellWhether(gathering: Gathering, isReady: boolean, detail: object = {}): void {
  const answer = { ready: isReady, ...detail };
  if (isReady) gathering.json(200, answer);
  else gathering.unavailable(answer);
}

/** A shard that knows says `caught_up`; a busy group is always a few entries behind its commit index. */
function isBehind(group: RaftGroup): boolean {
  return group['caught_up'] === false;
}
