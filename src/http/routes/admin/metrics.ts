/** GET /__svc/metrics: one JSON object made of every shard's counters (gateway/node-status.ts) and what the main thread knows. */
import process from 'node:process';
import { type NodeStatus, askNodeStatus } from '../../../gateway/node-status.ts';
import { backpressureOf } from '../../backpressure.ts';
import { compressionOf } from '../../compression.ts';
import type { RequestContext } from '../../request.ts';
import type { HttpServerContext } from '../../server-context.ts';

/** What the composition knows and HTTP does not. */
export interface MetricsSource {
  /** Bytes waiting in the request mailbox of each core. */
  mailboxDepths(): number[];
  mailboxCapacities(): number[];
  /** Latency histograms and status counts: HttpCounters.snapshot(). */
  http(): Record<string, unknown>;
  /** Further members of the top level, e.g. node_id, version, data directory; may be empty. */
  extra(): Record<string, unknown>;
}

export function handleMetrics(call: RequestContext, source: MetricsSource): void {
  const aggregate = call.aggregate();
  const answer = (status: Awaited<ReturnType<typeof askNodeStatus>>): void =>
    aggregate.guard(() => {
      if ('code' in status) aggregate.refuse(status.code, status.detail);
      else aggregate.json(200, snapshot(call.server, source, status));
    });
  askNodeStatus(call.gateway).then(answer, (error: unknown) => call.crash(error));
}

function snapshot(server: HttpServerContext, source: MetricsSource, status: NodeStatus): Record<string, unknown> {
  const { live } = server.ctx.metrics;
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
    live_read_waiters: live.longPolls + live.sseReaders,
    long_poll_waiters: live.longPolls,
    sse_readers: live.sseReaders,
    sse_streams_opened: live.sseOpened,
    sse_data_events: live.sseDataEvents,
    sse_control_events: live.sseControlEvents,
    sse_error_events: live.sseErrorEvents,
    live_read_slow_readers: live.slowReaders,
    live_read_backpressure_events: live.refused,
    ...server.ctx.connections.metrics(),
    http_inflight_body_bytes: budget.usedBytes,
    http_inflight_body_bytes_max: budget.limitBytes,
    http_compressing_bytes: compressionOf(server.ctx).usedBytes,
    http_unsent_answer_bytes: backpressureOf(server.ctx).usedBytes,
    process_rss_bytes: process.memoryUsage.rss(),
    ...source.extra(),
  };
}

interface ColdGroup {
  readonly raft_group_id: number;
  readonly [name: string]: unknown;
}

/** A node is as far as its worst group. */
const WORSE = ['open', 'pressure', 'refusing'];

/** What the cold tier's metrics say about the node as a whole, from what its shards say about their groups. */
export function coldSummary(
  groups: readonly ColdGroup[],
  perGroup: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const worst = Math.max(0, ...groups.map((group) => WORSE.indexOf(String(group['cold_write_admission']))));
  const ages = groups.map((group) => group['cold_backlog_age_ms']).filter((age) => typeof age === 'number');
  return {
    cold_write_admission: {
      state: WORSE[worst],
      refusing_groups: groups.filter((group) => group['cold_write_admission'] === 'refusing').map(idOf),
    },
    /** Of the oldest byte that is not in the cold store. */
    cold_flush_backlog_age_ms: Math.max(0, ...ages),
    cold_hot_group_bytes_max: highest(perGroup['per_group_cold_hot_bytes']),
    cold_hot_group_bytes_high_watermark: highest(perGroup['per_group_cold_hot_bytes_max']),
  };
}

function idOf(group: ColdGroup): number {
  return group.raft_group_id;
}

function highest(values: unknown): number {
  return Array.isArray(values) ? Math.max(0, ...values.filter((value) => typeof value === 'number')) : 0;
}
