/**
 * GET /__svc/metrics: one JSON object made of every shard's counters and what the main thread knows.
 *
 * A shard answers STATUS with `{"raft_groups": [...], "counters": {...}, "per_core": {...}, "per_group": {...}}`. Groups
 * are concatenated in their order, counters are summed and stand at the top level, as do the members of per_group; numbers
 * of per_core become arrays per_core_NAME in the order of the cores.
 */
import process from 'node:process';
import { newRequest } from '../../../protocol/request.ts';
import { compressionOf } from '../../compression.ts';
import { coldSummary } from './cold-metrics.ts';
import { Gathering } from '../../gather.ts';
import type { Plane } from '../../plane.ts';
import type { Responder } from '../../respond.ts';
import { type Part, askAllShards, firstRefusal } from '../../../gateway/scatter.ts';
import { unsentOf } from '../../unsent.ts';
import type { UwsResponse } from '../../uws.ts';
import { QUERIES } from '../../../protocol/operations.ts';

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

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

interface ShardStatus {
  readonly raft_groups?: readonly RaftGroup[];
  readonly counters?: Record<string, number>;
  readonly per_core?: Record<string, number>;
  readonly per_group?: Record<string, Json>;
  readonly [name: string]: unknown;
}

export interface RaftGroup {
  readonly raft_group_id: number;
  readonly leader: number | null;
  readonly [name: string]: unknown;
}

export interface MergedStatus {
  readonly raftGroups: readonly RaftGroup[];
  readonly counters: Record<string, number>;
  /** Arrays by core, in the order of the shards, named per_core_*. */
  readonly perCore: Record<string, number[]>;
  readonly perGroup: Record<string, Json>;
  /** Members of a shard's answer that no rule names, last one wins. */
  readonly rest: Record<string, unknown>;
}

/** Asks every shard and merges. `done` gets undefined and the gathering is answered when a shard refused. */
export function askStatus(plane: Plane, gathering: Gathering, done: (status: MergedStatus) => void): void {
  const query = newRequest();
  query.op = QUERIES.status.number;
  askAllShards(plane.ctx.gateway, query, (parts) => {
    const refused = firstRefusal(parts);
    if (refused !== undefined) return gathering.refuse(refused.code, refused.text);
    return gathering.guard(() => done(mergeStatus(parts)));
  });
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

function snapshot(plane: Plane, source: MetricsSource, status: MergedStatus): Record<string, unknown> {
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

export function mergeStatus(parts: readonly Part[]): MergedStatus {
  const raftGroups: RaftGroup[] = [];
  const counters: Record<string, number> = {};
  const perCore: Record<string, number[]> = {};
  let perGroup: Record<string, Json> = {};
  let rest: Record<string, unknown> = {};
  for (const part of parts) {
    const { raft_groups, counters: counted, per_core, per_group, ...others } = JSON.parse(part.body) as ShardStatus;
    for (const [name, value] of Object.entries(per_core ?? {})) (perCore[`per_core_${name}`] ??= []).push(value);
    raftGroups.push(...(raft_groups ?? []));
    for (const [name, value] of Object.entries(counted ?? {})) counters[name] = (counters[name] ?? 0) + value;
    perGroup = mergeJson(perGroup, per_group ?? {}) as Record<string, Json>;
    rest = { ...rest, ...others };
  }
  raftGroups.sort((left, right) => left.raft_group_id - right.raft_group_id);
  return { raftGroups, counters, perCore, perGroup, rest };
}

/** Numbers add up, arrays and objects merge member by member (a shard leaves 0 for groups that it does not own). */
function mergeJson(left: Json | undefined, right: Json): Json {
  if (left === undefined || left === null) return right;
  if (typeof left === 'number' && typeof right === 'number') return left + right;
  if (Array.isArray(left) && Array.isArray(right)) {
    const [longer, shorter] = left.length >= right.length ? [left, right] : [right, left];
    return longer.map((value, i) => (i < shorter.length ? mergeJson(value, shorter[i] as Json) : value));
  }
  if (isObject(left) && isObject(right)) {
    const merged: Record<string, Json> = { ...left };
    for (const [name, value] of Object.entries(right)) merged[name] = mergeJson(merged[name], value);
    return merged;
  }
  return right ?? left;
}

function isObject(value: Json): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
