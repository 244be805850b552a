/**
 * GET /__svc/metrics: one JSON object made of every shard's counters and what the main thread knows.
 */
import process from 'node:process';
import { type NodeStatus, askNodeStatus } from '../../../gateway/node-status.ts';
import { compressionOf } from '../../compression.ts';
import { coldSummary } from './cold-metrics.ts';
import { Gathering } from '../../gather.ts';
import type { Plane } from '../../plane.ts';
import type { Responder } from '../../respond.ts';
import { unsentOf } from '../../unsent.ts';
import type { UwsResponse } from '../../uws.ts';

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

/** Asks every shard and merges. The gathering is answered here when a shard refused. */
export function askStatus(plane: Plane, gathering: Gathering, done: (status: NodeStatus) => void): void {
  const answer = (status: Awaited<ReturnType<typeof askNodeStatus>>): void =>
    gathering.guard(() => ('code' in status ? gathering.refuse(status.code, status.text) : done(status)));
  const failed = (error: unknown): void =>
    gathering.guard(() => {
      throw error;
    });
  void askNodeStatus(plane.ctx.gateway).then(answer, failed);
}

export function handleMetrics(
  plane: Plane,
  source: MetricsSource,
  res: UwsResponse,
  responder: Responder,
  startedMs: number,
): void {
  const gathering = new Gathering(plane, res, responder, 'other', startedMs);
  askStatus(plane, gathering, (status) => gathering.json(200, snapshot(plane, source, status)));
}

function snapshot(plane: Plane, source: MetricsSource, status: NodeStatus): Record<string, unknown> {
  const { live } = plane.ctx.metrics;
  const { budget } = plane;
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
    ...plane.ctx.connections.metrics(),
    http_inflight_body_bytes: budget.usedBytes,
    http_inflight_body_bytes_max: budget.limitBytes,
    http_compressing_bytes: compressionOf(plane.ctx).usedBytes,
    http_unsent_answer_bytes: unsentOf(plane.ctx).usedBytes,
    process_rss_bytes: process.memoryUsage.rss(),
    ...source.extra(),
  };
}
