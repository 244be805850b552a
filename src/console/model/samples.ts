/** Holds the answers of all nodes in one round. Pure, as everything in this folder. */
import type { ClusterSnapshot } from '../../nodes/cluster-snapshot.ts';
import { type Json, type NodeReport, isObject, parseMetrics } from '../../nodes/report.ts';

/** A node as the page knows it. */
export interface KnownNode {
  readonly id: number;
  /** Empty when nothing tells. */
  readonly host: string;
  /** Its admin plane can be asked from this page. */
  readonly isAsked: boolean;
}

/** One node's answer to one question for its metrics. */
export interface Sample {
  readonly nodeId: number;
  /** On the page's monotonic clock. */
  readonly atMs: number;
  readonly metrics: Json | undefined;
  readonly report: NodeReport | undefined;
  /** Why there is no report, in one sentence. */
  readonly error: string;
}

export type Round = readonly Sample[];

export function answered(nodeId: number, atMs: number, metrics: unknown): Sample {
  const report = parseMetrics(metrics);
  if (report === undefined || !isObject(metrics)) {
    return failed(nodeId, atMs, 'what answers there is not a node of this service');
  }
  return { nodeId, atMs, metrics, report, error: '' };
}

/** The fault of a node that has never answered, while its first question is under way. */
export const NO_ANSWER_YET = 'no answer yet';

export function failed(nodeId: number, atMs: number, error: string): Sample {
  return { nodeId, atMs, metrics: undefined, report: undefined, error };
}

export function snapshotOf(round: Round): ClusterSnapshot {
  return round.map(({ nodeId, report, error }) => ({ nodeId, report, error }));
}

/** The nodes that a node's page knows: itself, and whom its groups name. */
export function nodesKnownTo(report: NodeReport, metrics: Json): KnownNode[] {
  const ids = new Set(report.groups.flatMap(({ voters, learners }) => [...voters, ...learners]));
  if (report.nodeId !== undefined) ids.add(report.nodeId);
  const hosts = new Map<string, string>();
  const groups: unknown = metrics['raft_groups'];
  for (const group of Array.isArray(groups) ? groups : []) {
    const addresses: unknown = isObject(group) ? group['member_addresses'] : undefined;
    for (const [id, address] of isObject(addresses) ? Object.entries(addresses) : []) hosts.set(id, String(address));
  }
  return [...ids]
    .sort((a, b) => a - b)
    .map((id) => ({ id, host: hosts.get(String(id)) ?? '', isAsked: id === report.nodeId }));
}

/** Follows a path through objects, such as `latency_us.append.p99`. */
export function numberIn(metrics: Json | undefined, ...path: readonly string[]): number | undefined {
  const found = valueIn(metrics, path);
  return typeof found === 'number' ? found : undefined;
}

/** The object at the end of a path. */
export function memberOf(metrics: Json | undefined, ...path: readonly string[]): Json | undefined {
  const found = valueIn(metrics, path);
  return isObject(found) ? found : undefined;
}

function valueIn(metrics: Json | undefined, path: readonly string[]): unknown {
  let at: unknown = metrics;
  for (const name of path) at = isObject(at) ? at[name] : undefined;
  return at;
}

/** A node has fewer cores; each is a line that the page keeps. */
const NUMBERS_MAX = 1024;

export function numbersIn(metrics: Json | undefined, name: string): number[] {
  const found: unknown = metrics?.[name];
  return Array.isArray(found) ? found.slice(0, NUMBERS_MAX).map((one) => (typeof one === 'number' ? one : 0)) : [];
}
