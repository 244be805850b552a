/** Nodes tell about backups of their cluster. All are asked: a file may name nodes of several clusters. */
import { lineageIn } from '../format/manifest.ts';
import type { Lineage } from '../ports.ts';
import { BACKUP_FORMAT_VERSION } from '../../base/limits.ts';
import { formatDuration } from '../../config/values.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import type { Cluster } from '../../nodes/cluster.ts';
import { Failure, Interrupted, reasonOf } from '../../nodes/failure.ts';
import { membersOf, refusal } from '../../nodes/http-client.ts';
import { isObject } from '../../nodes/report.ts';

export interface BackupInfo extends Graces {
  readonly groupCount: number;
  readonly clusterId: string | null;
}

interface Told extends BackupInfo {
  readonly node: ClusterNode;
  readonly sources: readonly string[];
}

/** Throws a Failure when no node tells, or several clusters do. */
export async function infoOf(cluster: Cluster): Promise<BackupInfo> {
  const reasons: string[] = [];
  const [first, ...others] = await toldBy(cluster, (reason) => reasons.push(reason));
  if (first === undefined) throw new Failure(`no node tells about backups; ${reasons.join('; ')}`);
  // A node that is new may not know its cluster yet.
  const { clusterId } = [first, ...others].find((one) => one.clusterId !== null) ?? first;
  return { ...first, clusterId };
}

/** Each node tells of the restores that it took part in. One that does not answer is left out. */
export async function lineageOf(cluster: Cluster, clusterId: string | null): Promise<Lineage> {
  const told = await toldBy(cluster, () => undefined);
  return { cluster_id: clusterId, restored_from: [...new Set(told.flatMap(({ sources }) => sources))].sort() };
}

/** In the order of the file. `missing`: why a node does not tell. Throws a Failure when several clusters do. */
async function toldBy(cluster: Cluster, missing: (reason: string) => void): Promise<Told[]> {
  const answers = await Promise.all(cluster.nodes.map((node) => answerOf(cluster, node)));
  for (const answer of answers) if (typeof answer === 'string') missing(answer);
  const told = answers.filter((answer) => typeof answer !== 'string');
  const known = told.filter(({ clusterId }) => clusterId !== null);
  const others = known.filter(({ clusterId }) => clusterId !== known[0]?.clusterId);
  if (known[0] === undefined || others.length === 0) return told;
  const named = [known[0], ...others].map(({ node, clusterId }) => `node ${node.id} is of ${clusterId}`);
  throw new Failure(`the cluster file names nodes of several clusters: ${named.join(', ')}; leave out those of others`);
}

/** Or why there is none. */
async function answerOf(cluster: Cluster, node: ClusterNode): Promise<Told | string> {
  try {
    const reply = await cluster.call(node, 'GET', '/__svc/backup/info');
    if (reply.status !== 200) throw new Failure(refusal(reply));
    const info = JSON.parse(reply.text) as Readonly<Record<string, unknown>>;
    const { format_version: version, raft_group_count: count } = info;
    if (version !== BACKUP_FORMAT_VERSION) {
      throw new Failure(`it makes backups of format ${String(version)}; this program knows ${BACKUP_FORMAT_VERSION}`);
    }
    if (!Number.isSafeInteger(count)) throw new Failure('it names no number of groups');
    const { cluster_id: clusterId, restored_from: sources } = lineageIn(info);
    return {
      ...{ node, clusterId, sources, groupCount: count as number },
      removedMs: msOf(info['cold_gc_grace_ms']),
      mergedMs: msOf(info['cold_compaction_gc_grace_ms']),
    };
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    return `node ${node.id}: ${reasonOf(error)}`;
  }
}

function msOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

/**
 * Why the node ended a download of this group. Undefined: it gives no reason; null: it does not answer.
 */
export async function whyEnded(
  cluster: Cluster,
  node: ClusterNode,
  group: number,
): Promise<{ readonly code: unknown; readonly reason: string } | undefined | null> {
  try {
    const reply = await cluster.call(node, 'GET', '/__svc/backup/info');
    const { exports_ended_early: ended } = membersOf(reply.text);
    if (!Array.isArray(ended)) return undefined;
    const found = ended.filter(isObject).find((one) => one['raft_group_id'] === group);
    const reason = found?.['reason'];
    return typeof reason === 'string' ? { code: found?.['code'], reason } : undefined;
  } catch (error) {
    if (error instanceof Failure && !(error instanceof Interrupted)) return null;
    throw error;
  }
}

/** Backups are made once a day, at least. */
const SHORT_MS = 24 * 3_600_000;

/** How long objects without an owner are kept. Undefined: they are never deleted for it, or the node does not tell. */
export interface Graces {
  /** After the stream was deleted, or trimmed. */
  readonly removedMs: number | undefined;
  /** After they were merged into others. */
  readonly mergedMs: number | undefined;
}

/** A warning that the cluster may delete cold objects that a backup refers to; undefined: it keeps them long enough. */
export function coldNote(objects: number, { removedMs, mergedMs }: Graces): string | undefined {
  const short: string[] = [];
  const add = (ms: number | undefined, which: string, setting: string): void => {
    if (ms !== undefined && ms < SHORT_MS) short.push(`${which} ${formatDuration(ms)} later (${setting})`);
  };
  add(removedMs, 'of streams that are deleted or trimmed', 'storage.cold.gc_grace');
  add(mergedMs, 'of chunks that are merged', 'storage.cold.compaction_gc_grace');
  if (objects === 0 || short.length === 0) return undefined;
  return (
    `warning: the backup refers to ${objects} ${objects === 1 ? 'object' : 'objects'} in the cold store, and the cluster deletes those ` +
    `${short.join(', and those ')}; this backup cannot bring them back then, so let the grace be longer than backups are kept, or copy the objects too`
  );
}
