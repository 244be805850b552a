/**
 * The merged status of a node's shards, shown in the metrics and used by the balancer.
 *
 * A shard answers with `{"raft_groups": [...], "counters": {...}, "per_core": {...}, "per_group": {...}}`. Groups are
 * concatenated in order. Counters are summed and appear at the top level, as do the members of per_group. Numbers of
 * per_core become arrays per_core_NAME in core order.
 */
import type { ShardGateway } from '../ports.ts';
import { QUERIES } from '../protocol/operations.ts';
import { type Answer, type Refused, callShards, firstRefusal } from './shard-client.ts';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

interface ShardStatus {
  readonly raft_groups?: readonly RaftGroup[];
  readonly counters?: Record<string, number>;
  readonly per_core?: Record<string, number>;
  readonly per_group?: Record<string, Json>;
  readonly [name: string]: unknown;
}

/** A group as its shard sees it. The node uses the named members; the metrics show all. */
export interface RaftGroup {
  readonly raft_group_id: number;
  readonly leader: number | null;
  readonly voter_ids: readonly number[];
  /** This node leads it, and the cold store rejects its bytes. */
  readonly cold_flush_failing?: boolean;
  /** This node recently gave up its leadership because nothing was committed. */
  readonly stalled?: boolean;
  /** Node -> HOST:PORT of its cluster plane, for those that joined while the cluster ran. */
  readonly member_addresses?: Readonly<Record<string, string>>;
  readonly [name: string]: unknown;
}

/** Status of all shards of a node. */
export interface NodeStatus {
  readonly raftGroups: readonly RaftGroup[];
  readonly counters: Record<string, number>;
  /** Arrays by core, in the order of the shards, named per_core_*. */
  readonly perCore: Record<string, number[]>;
  readonly perGroup: Record<string, Json>;
  /** Members of a shard's answer that no rule names, last one wins. */
  readonly rest: Record<string, unknown>;
}

/**
 * The refusal of the first shard that is busy or stopping, or the merged status. Rejects when an answer cannot be
 * parsed.
 */
export async function askNodeStatus(gateway: ShardGateway): Promise<NodeStatus | Refused> {
  const parts = await new Promise<readonly Answer<unknown>[]>((resolve) => {
    callShards(gateway, QUERIES.status, undefined, resolve);
  });
  return firstRefusal(parts) ?? mergeStatus(parts);
}

export function mergeStatus(parts: readonly Answer<unknown>[]): NodeStatus {
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
