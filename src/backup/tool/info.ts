/** The first node that answers describes the cluster's backups. */
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

/** Throws a Failure when no node tells. */
export async function infoOf(cluster: Cluster): Promise<BackupInfo> {
  const reasons: string[] = [];
  for (const node of cluster.nodes) {
    try {
      const reply = await cluster.call(node, 'GET', '/__svc/backup/info');
      if (reply.status !== 200) throw new Failure(refusal(reply));
      const info = JSON.parse(reply.text) as Readonly<Record<string, unknown>>;
      const { format_version: version, raft_group_count: count } = info;
      if (version !== BACKUP_FORMAT_VERSION) {
        throw new Failure(`it makes backups of format ${String(version)}; this program knows ${BACKUP_FORMAT_VERSION}`);
      }
      if (!Number.isSafeInteger(count)) throw new Failure('it names no number of groups');
      return {
        groupCount: count as number,
        clusterId: lineageIn(info).cluster_id,
        removedMs: msOf(info['cold_gc_grace_ms']),
        mergedMs: msOf(info['cold_compaction_gc_grace_ms']),
      };
    } catch (error) {
      if (error instanceof Interrupted) throw error;
      reasons.push(`node ${node.id}: ${reasonOf(error)}`);
    }
  }
  throw new Failure(`no node tells about backups; ${reasons.join('; ')}`);
}

/** Each node tells of the restores that it took part in. One that does not answer is left out. */
export async function lineageOf(cluster: Cluster, clusterId: string | null): Promise<Lineage> {
  const told = cluster.nodes.map(async (node) => {
    try {
      const { text } = await cluster.call(node, 'GET', '/__svc/backup/info');
      return lineageIn(membersOf(text)).restored_from;
    } catch (error) {
      if (error instanceof Interrupted) throw error;
      return [];
    }
  });
  return { cluster_id: clusterId, restored_from: [...new Set((await Promise.all(told)).flat())].sort() };
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
