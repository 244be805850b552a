/** One group of a verified backup into an empty cluster, through the first node that takes it. */
import type { Location } from '../../backup/location.ts';
import type { GroupEntry } from '../../backup/manifest.ts';
import { BACKUP_CONTENT_TYPE } from '../../base/limits.ts';
import type { Cluster } from '../cluster.ts';
import { Failure, Interrupted } from '../failure.ts';
import { type Reply, refusal } from '../http-client.ts';
import { upload } from './transfer.ts';

export interface RestoreOptions {
  /** A group that holds this backup already is done. */
  readonly resume: boolean;
  /** The objects of the source become this cluster's. */
  readonly adopts: boolean;
}

/** True: it was there already, from this very backup. */
export async function restoreGroup(
  cluster: Cluster,
  location: Location,
  entry: GroupEntry,
  { resume, adopts }: RestoreOptions,
  moved: (bytes: number) => void,
): Promise<boolean> {
  const group = entry.raft_group_id;
  const headers = { 'content-type': BACKUP_CONTENT_TYPE, 'x-svc-backup-blake3': entry.blake3 };
  const path = `/__svc/backup/group/${group}/import${adopts ? '?adopt=true' : ''}`;
  const reasons: string[] = [];
  for (const node of cluster.nodes) {
    let sent = 0;
    const pieces = async function* (): AsyncIterable<Uint8Array> {
      for await (const piece of location.read(entry.object, entry.bytes)) {
        sent += piece.length;
        moved(piece.length);
        yield piece;
      }
    };
    let reply: Reply;
    try {
      reply = await upload(cluster, node, path, headers, entry.bytes, pieces());
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
      reasons.push(`node ${node.id}: ${error.message}`);
      moved(-sent);
      continue;
    }
    if (reply.status >= 200 && reply.status < 300) return false;
    if (reply.status === 409 && importedFrom(reply) === entry.blake3) {
      // Also when the answer to our own upload was lost and another node was asked.
      if (resume || reasons.length > 0) return true;
      throw new Failure(`group ${group} holds this backup already; go on with --resume`);
    }
    if (reply.status === 409) {
      throw new Failure(`group ${group} is not empty (${refusal(reply)}); a backup is restored into a fresh cluster`);
    }
    reasons.push(`node ${node.id}: ${refusal(reply)}`);
    moved(-sent);
  }
  throw new Failure(`group ${group}: no node took it; ${reasons.join('; ')}; repeat with --resume when that is mended`);
}

function importedFrom({ text }: Reply): string | undefined {
  try {
    const { imported_blake3: digest } = JSON.parse(text) as { readonly imported_blake3?: unknown };
    return typeof digest === 'string' ? digest : undefined;
  } catch {
    return undefined;
  }
}
