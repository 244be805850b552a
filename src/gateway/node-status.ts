/**
 * The merged status of a node's shards, shown in the metrics and used by the balancer.
 *
 * A shard answers with `{"raft_groups": [...], "counters": {...}, "per_core": {...}, "per_group": {...}}`. Groups are
 * concatenated in order. Counters are summed and appear at the top level, as do the members of per_group. Numbers of
 * per_core become arrays per_core_NAME in core order.
 */
import { isTable } from '../base/scopes.ts';
import type { ShardGateway } from '../ports.ts';
import { QUERIES } from '../protocol/operations.ts';
import { type ShardAnswer, type Refused, callShards, firstRefusal, resultsOf } from './shard-client.ts';
import type { RaftGroup, StatusResult } from '../protocol/queries/summaries.ts';

/** Status of all shards of a node. */
export interface NodeStatus {
  readonly raftGroups: readonly RaftGroup[];
  readonly counters: Record<string, number>;
  /** Arrays by core, in the order of the shards, named per_core_*. */
  readonly perCore: Record<string, number[]>;
  readonly perGroup: Record<string, unknown>;
  /** Members of a shard's answer that no rule names: true when one shard says so, of others the last one wins. */
  readonly rest: Record<string, unknown>;
}

/** The refusal of the first shard that is busy or stopping, or the merged status. Rejects for unreadable answers. */
export async function askNodeStatus(gateway: ShardGateway): Promise<NodeStatus | Refused> {
  const parts = await new Promise<readonly ShardAnswer<StatusResult>[]>((resolve) => {
    callShards(gateway, QUERIES.status, undefined, resolve);
  });
  const refused = firstRefusal(parts);
  if (refused?.code === 'INTERNAL') throw new Error(`the status of a shard: ${refused.detail}`);
  return refused ?? mergeStatus(resultsOf(parts));
}

export function mergeStatus(parts: readonly StatusResult[]): NodeStatus {
  const raftGroups: RaftGroup[] = [];
  const counters: Record<string, number> = {};
  const perCore: Record<string, number[]> = {};
  let perGroup: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const part of parts) {
    const { raft_groups, counters: counted, per_core, per_group, ...others } = part;
    for (const [name, value] of Object.entries(per_core ?? {})) (perCore[`per_core_${name}`] ??= []).push(value);
    raftGroups.push(...(raft_groups ?? []));
    for (const [name, value] of Object.entries(counted ?? {})) counters[name] = (counters[name] ?? 0) + value;
    perGroup = mergeMembers(perGroup, per_group ?? {});
    for (const [name, value] of Object.entries(others)) if (rest[name] !== true) rest[name] = value;
  }
  raftGroups.sort((left, right) => left.raft_group_id - right.raft_group_id);
  return { raftGroups, counters, perCore, perGroup, rest };
}

type Members = Readonly<Record<string, unknown>>;

function mergeMembers(left: Members, right: Members): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...left };
  for (const [name, value] of Object.entries(right)) merged[name] = mergeJson(merged[name], value);
  return merged;
}

/** Numbers add up, arrays and objects merge member by member (a shard leaves 0 for groups that it does not own). */
function mergeJson(left: unknown, right: unknown): unknown {
  if (left === undefined || left === null) return right;
  if (typeof left === 'number' && typeof right === 'number') return left + right;
  if (Array.isArray(left) && Array.isArray(right)) {
    const [longer, shorter]: [unknown[], unknown[]] = left.length >= right.length ? [left, right] : [right, left];
    return longer.map((value, i) => (i < shorter.length ? mergeJson(value, shorter[i]) : value));
  }
  if (isTable(left) && isTable(right)) return mergeMembers(left, right);
  return right ?? left;
}

interface ColdGroup {
  readonly raft_group_id: number;
  readonly [name: string]: unknown;
}

/** A node is as far as its worst group. */
const WORSE = ['open', 'pressure', 'refusing'];

/** The cold tier of the node as a whole, from what its shards say about their groups. */
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
    /** The age of the oldest byte that is not in the cold store. */
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
