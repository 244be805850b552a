/**
 * The node as a whole: health, readiness, metrics, whether it leads groups, the keys that webhooks are signed with.
 *
 * Health and readiness are on both planes and need no token: load balancers ask them. Requests with the token of the
 * admin plane, or on one without a token, are told what is missing; others only whether.
 */
import process from 'node:process';
import { MillraceError } from '../../../base/errors.ts';
import { type NodeStatus, askNodeStatus, coldSummary } from '../../../gateway/node-status.ts';
import type { RaftGroup } from '../../../protocol/queries/summaries.ts';
import type { Refused } from '../../../gateway/shard-client.ts';
import type { MetricsHistory } from '../../../metrics/history.ts';
import { guardData, readData } from '../../guard.ts';
import type { WriteHeaders } from '../../headers.ts';
import type { RequestContext } from '../../request.ts';
import { grantOf } from '../../scope-gate.ts';
import type { HttpServerContext } from '../../server-context.ts';
import type { DrainMark } from '../../../placement/ports.ts';
import { SHED_DRAIN, describeShed } from '../../../placement/state/shed.ts';
import type { KeyRotation, WebhookKeys } from '../../../subscriptions/ports.ts';

/** Does the sender of a request have the plane's token, or does the plane ask for none? */
export type Knows = (headers: WriteHeaders) => boolean;

/** Every shard is asked for an answer, so requests without the token share one for so long or the one under way. */
const SHARED_MS = 1000;

/** The answer to one question to all shards; `detail` is for senders who may know it. */
type Readiness =
  | Pick<Refused, 'code' | 'detail'>
  | { readonly code: 'OK'; readonly ready: boolean; readonly detail: Readonly<Record<string, unknown>> };

export function answerHealth(call: RequestContext): void {
  call.json(200, { status: 'up' });
}

export class ReadyProbe {
  readonly #knows: Knows;
  #foundMs = -Infinity;
  /** The answer to the last question. */
  #found: { readonly ready: boolean } | undefined;
  /** The question that requests without the token share, while it is under way. */
  #asking: Promise<Readiness> | undefined;

  constructor(knows: Knows) {
    this.#knows = knows;
  }

  /**
   * 200 when every group has a leader and has applied what it started with, and the disk takes writes in time; else 503
   * and what is missing. A full disk is no reason: reads go on.
   */
  answer(call: RequestContext): void {
    const isKnown = this.#knows(call.headers);
    call.keep();
    if (!isKnown && call.startedMs - this.#foundMs < SHARED_MS && this.#found !== undefined) {
      return tellReady(call, this.#found);
    }
    const asking = isKnown
      ? this.#ask(call)
      : (this.#asking ??= this.#ask(call).finally(() => (this.#asking = undefined)));
    void asking.then((found) => {
      if (found.code !== 'OK') return call.refuse(found.code, found.detail);
      const { ready, detail } = found;
      return tellReady(call, isKnown ? { ready, ...detail } : { ready });
    });
  }

  /** Never rejects. */
  async #ask(call: RequestContext): Promise<Readiness> {
    const { server, gateway, startedMs } = call;
    try {
      const status = await askNodeStatus(gateway);
      if ('code' in status) return status;
      const { raftGroups, rest } = status;
      const leaderless = raftGroups.filter((group) => group.leader === null).map((group) => group.raft_group_id);
      const behind = raftGroups.filter(isBehind).map((group) => group.raft_group_id);
      // Such a node confirms no writes, not even those of other leaders, and its reads are late.
      const isSlow = rest['disk_slow'] === true;
      const ready = leaderless.length + behind.length === 0 && raftGroups.length === gateway.groupCount && !isSlow;
      this.#foundMs = startedMs;
      this.#found = { ready };
      const detail = {
        groups: raftGroups.length,
        leaderless_groups: leaderless,
        groups_behind: behind,
        disk_slow: isSlow,
      };
      return { code: 'OK', ready, detail };
    } catch (error) {
      server.logError(error, 'ready', call.requestId);
      return { code: 'INTERNAL', detail: '' };
    }
  }
}

function tellReady(call: RequestContext, answer: { readonly ready: boolean }): void {
  if (answer.ready) call.json(200, answer);
  else call.respond((res) => call.responder.unavailable(res, JSON.stringify(answer)));
}

/** A shard that knows says `caught_up`; a busy group is always a few entries behind its commit index. */
function isBehind(group: RaftGroup): boolean {
  return group['caught_up'] === false;
}

/** GET /__svc/whoami: what the token of the sender may do, so that the console offers nothing else. */
export function handleWhoami(call: RequestContext): void {
  const { credentials } = call;
  const { id = null, role = 'destroy' } = typeof credentials === 'object' ? credentials : {};
  call.json(200, { token: id, role });
}

/** Metrics that the composition knows and HTTP does not. */
export interface MetricsSource {
  /** Bytes waiting in the request mailbox of each core. */
  mailboxDepths(): number[];
  mailboxCapacities(): number[];
  /** Latency histograms and status counts: HttpCounters.snapshot(). */
  http(): Record<string, unknown>;
  /** Further members of the top level, e.g. node_id, version, data directory; may be empty. */
  extra(): Record<string, unknown>;
}

/** GET /__svc/metrics: shards' counters (gateway/node-status.ts), and the main thread's. Tokens with scopes see their own. */
export function handleMetrics(call: RequestContext, source: MetricsSource): void {
  const grant = grantOf(call.credentials);
  if (grant !== undefined) return call.json(200, call.server.limits.metrics(grant));
  call.keep();
  const answer = (status: Awaited<ReturnType<typeof askNodeStatus>>): void =>
    call.guard(() => {
      if ('code' in status) call.refuse(status.code, status.detail);
      else call.json(200, snapshot(call.server, source, status));
    });
  askNodeStatus(call.gateway).then(answer, (error: unknown) => call.crash(error));
}

/** The past of the node, kept by the composition. */
export type KeptMetrics = Pick<MetricsHistory, 'begin' | 'end' | 'json'>;

export function beginHistory(server: HttpServerContext, source: MetricsSource, history: KeptMetrics): void {
  history.begin(async () => {
    try {
      const status = await askNodeStatus(server.gateway);
      return 'code' in status ? undefined : snapshot(server, source, status);
    } catch (error) {
      server.logError(error, 'metrics/history', undefined);
      return undefined;
    }
  });
}

/** GET /__svc/metrics/history */
export function handleHistory(call: RequestContext, history: KeptMetrics): void {
  call.respond((res) => call.responder.json(res, 200, history.json()));
}

function snapshot(server: HttpServerContext, source: MetricsSource, status: NodeStatus): Record<string, unknown> {
  const { live, sessions, access } = server.ctx.metrics;
  const { budget } = server;
  return {
    ...coldSummary(status.raftGroups, status.perGroup),
    ...status.rest,
    ...status.counters,
    ...status.perCore,
    ...status.perGroup,
    raft_group_count: status.raftGroups.length,
    raft_groups: status.raftGroups,
    mailbox_depths: source.mailboxDepths(),
    mailbox_capacities: source.mailboxCapacities(),
    ...source.http(),
    live_read_waiters: live.longPolls + live.sseReaders + live.subscriptions,
    long_poll_waiters: live.longPolls,
    sse_readers: live.sseReaders,
    sse_streams_opened: live.sseOpened,
    sse_data_events: live.sseDataEvents,
    sse_control_events: live.sseControlEvents,
    sse_error_events: live.sseErrorEvents,
    sse_rendered_bytes: server.node.live.rendered.bytes,
    live_read_slow_readers: live.slowReaders,
    live_read_backpressure_events: live.refused,
    sessions: sessions.open,
    sessions_opened: sessions.opened,
    sessions_refused: sessions.refused,
    session_faults: sessions.faults,
    session_requests: sessions.requests,
    session_refusals: sessions.refusals,
    session_subscriptions: live.subscriptions,
    session_events: sessions.events,
    session_received_bytes: sessions.bytesIn,
    session_sent_bytes: sessions.bytesOut,
    token_missing: access.missing,
    token_unknown: access.unknown,
    token_expired: access.expired,
    token_revoked: access.revoked,
    token_oversized: access.oversized,
    token_invalid: access.invalid,
    token_throttled: access.throttled,
    token_misplaced: access.misplaced,
    scope_denied: access.denied,
    scope_hidden: access.hidden,
    ...server.ctx.connections.metrics(),
    http_inflight_body_bytes: budget.usedBytes,
    http_inflight_body_bytes_max: budget.limitBytes,
    http_compressing_bytes: server.node.compression.usedBytes,
    http_unsent_answer_bytes: server.backpressure.usedBytes,
    process_rss_bytes: process.memoryUsage.rss(),
    ...source.extra(),
  };
}

/** GET /__svc/leadership-shed */
export function handleReadShed(call: RequestContext, mark: DrainMark): void {
  call.json(200, describeShed(mark.bits));
}

/**
 * POST (draining) and DELETE (not) /__svc/leadership-shed/maintenance. Both are idempotent, so
 * repeating a call that failed half way completes it.
 */
export function setShed(wanted: 'draining' | 'serving'): (call: RequestContext, mark: DrainMark) => void {
  const act = async (mark: DrainMark): Promise<unknown> => {
    await mark.set(wanted);
    // Shows the state that this call brought about, even if another call changes it in the same moment.
    return describeShed(wanted === 'draining' ? mark.bits | SHED_DRAIN : mark.bits & ~SHED_DRAIN);
  };
  return (call, mark) => answerLater(call, () => act(mark), 'leadership-shed');
}

/** GET /__svc/webhook-keys: the keys that webhooks are signed with. */
export function handleShowKeys(call: RequestContext, keys: WebhookKeys): void {
  answerLater(call, () => keys.show(), 'webhook-keys');
}

/** POST adds a key that signs once receivers know it; DELETE replaces all at once: one is in wrong hands. */
export function rotateKeys(which: KeyRotation): (call: RequestContext, keys: WebhookKeys) => void {
  return (call, keys) => answerLater(call, () => keys.rotate(which), 'webhook-keys');
}

/** JSON of what comes; a string says why not. */
function answerLater(call: RequestContext, act: () => Promise<unknown>, what: string): void {
  call.keep();
  act().then(
    (result) => (typeof result === 'string' ? call.text(409, result) : call.json(200, result)),
    (error: unknown) => {
      if (!(error instanceof MillraceError)) call.server.logError(error, what, call.requestId);
      call.refuse(error instanceof MillraceError ? error.code : 'INTERNAL');
    },
  );
}

/**
 * POST /__svc/cluster-probe: peers post large bodies here to see that they get through. A
 * body is discarded as it comes, so no budget is needed.
 */
export function handleClusterProbe(call: RequestContext): void {
  const { req, res, route, server } = call;
  const bytesMax = route.bodyBytesMax ?? 0;
  if (Number(req.getHeader('content-length')) > bytesMax) return call.refuse('BODY_TOO_LARGE');
  call.keep();
  let bytes = 0;
  const take = guardData(server.logError, call, (chunk, last) => {
    bytes += chunk.byteLength;
    if (bytes > bytesMax) call.refuse('BODY_TOO_LARGE');
    else if (last) call.empty(200);
  });
  return res === undefined ? undefined : readData(res, take);
}
