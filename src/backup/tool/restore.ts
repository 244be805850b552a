/** Groups of a verified backup into an empty cluster, several at once, each through the first node that takes it. */
import type { Location } from '../format/location.ts';
import type { GroupEntry } from '../format/manifest.ts';
import { Fault } from '../../stream/backup/fault.ts';
import { BACKUP_CONTENT_TYPE } from '../../base/limits.ts';
import { upload } from './transfer.ts';
import type { Cluster } from '../../nodes/cluster.ts';
import { Failure, Interrupted } from '../../nodes/failure.ts';
import { type HttpReply, membersOf, refusal } from '../../nodes/http-client.ts';

export interface RestoreOptions {
  readonly location: Location;
  /** A group that holds this backup already is done. */
  readonly resume: boolean;
  /** The objects of the source become this cluster's. */
  readonly adopts: boolean;
  /** Identity of the cluster that the backup is of, as its manifest has it. */
  readonly source: string | null;
}

/** Nodes look at a few objects in the cold store that each group refers to. */
export interface ColdFindings {
  sampled: number;
  unreadable: number;
  /** Why the first unreadable object cannot be read. */
  reason: string;
}

/** Each is bounded by its group's log and the disk that all share; each holds a part of its file, 16 MiB from S3. */
const IMPORTS_AT_ONCE = 4;

/** The first failure ends all that is under way; nodes undo what they have not got to its end. */
export async function restoreGroups(
  cluster: Cluster,
  entries: readonly GroupEntry[],
  options: RestoreOptions,
  /** So many groups are there, and so many bytes more or less. */
  tell: (done: number, bytes: number) => void,
): Promise<ColdFindings> {
  const findings: ColdFindings = { sampled: 0, unreadable: 0, reason: '' };
  const halt = new AbortController();
  const scope = cluster.until(halt.signal);
  const waiting = [...entries];
  let done = 0;
  let failure: Error | undefined;
  const worker = async (): Promise<void> => {
    for (let entry = waiting.shift(); entry !== undefined; entry = waiting.shift()) {
      const reply = await restoreGroup(scope, entry, options, (bytes) => tell(done, bytes));
      if (reply !== undefined) addFindings(findings, reply);
      tell(++done, 0);
    }
  };
  const workers = Array.from({ length: IMPORTS_AT_ONCE }, () =>
    worker().catch((error: unknown) => {
      if (halt.signal.aborted) return;
      failure = error as Error;
      waiting.length = 0;
      halt.abort();
    }),
  );
  tell(0, 0);
  await Promise.all(workers);
  if (failure === undefined) return findings;
  if (!(failure instanceof Failure || failure instanceof Fault)) throw failure;
  const so = `${done} of ${entries.length} groups are restored`;
  const rest = failure instanceof Occupied ? (done === 0 ? '' : ` (${so})`) : ` (${so}; --resume goes on from there)`;
  const code = failure instanceof Failure ? failure.exitCode : undefined;
  throw new Failure(failure.message + rest, code, { cause: failure });
}

/**
 * Before a restore goes on: a group that holds something else ends it while nothing more was sent,
 * or the cluster would become a mixture of two backups. Asked with an import of nothing, which is
 * refused, and empties what another one left half done.
 */
export async function checkResumable(cluster: Cluster, entries: readonly GroupEntry[]): Promise<void> {
  for (const { raft_group_id: group, blake3 } of entries) {
    const reply = await anyAnswer(cluster, `/__svc/backup/group/${group}/import`);
    if (reply?.status !== 409 || importedFrom(reply) === blake3) continue;
    const why = importedFrom(reply) === undefined ? 'was written to' : 'holds another backup';
    throw new Failure(
      `group ${group} ${why}, so nothing more was restored: --resume goes on with the backup that was begun; another one wants a fresh cluster`,
    );
  }
}

/** The answer of the first node that gives one. If none does, sending the group shows why. */
async function anyAnswer(cluster: Cluster, path: string): Promise<HttpReply | undefined> {
  for (const node of cluster.nodes) {
    try {
      return await cluster.call(node, 'POST', path);
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
    }
  }
  return undefined;
}

/** 409: another attempt would find the same. */
class Occupied extends Failure {}

/** Restores one group. Returns no reply when the group is there already, from this very backup, and may be. */
async function restoreGroup(
  cluster: Cluster,
  entry: GroupEntry,
  { location, resume, adopts, source }: RestoreOptions,
  moved: (bytes: number) => void,
): Promise<HttpReply | undefined> {
  const group = entry.raft_group_id;
  const headers = {
    'content-type': BACKUP_CONTENT_TYPE,
    'x-svc-backup-blake3': entry.blake3,
    ...(source === null ? {} : { 'x-svc-backup-cluster': source }),
  };
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
    let reply: HttpReply;
    try {
      reply = await upload(cluster, node, { path, headers, size: entry.bytes, pieces: pieces() });
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
      reasons.push(`node ${node.id}: ${error.message}`);
      moved(-sent);
      continue;
    }
    if (reply.status >= 200 && reply.status < 300) return reply;
    if (reply.status === 409 && importedFrom(reply) === entry.blake3) {
      // The group may come from our own upload, whose answer was lost before another node was asked.
      if (resume || reasons.length > 0) return undefined;
      throw new Occupied(`group ${group} holds this backup already; go on with --resume`);
    }
    if (reply.status === 409) {
      throw new Occupied(`group ${group} is not empty (${refusal(reply)}); a backup is restored into a fresh cluster`);
    }
    reasons.push(`node ${node.id}: ${refusal(reply)}`);
    moved(-sent);
  }
  throw new Failure(`group ${group}: no node took it; ${reasons.join('; ')}`);
}

function importedFrom(reply: HttpReply): string | undefined {
  const digest = membersOf(reply.text)['imported_blake3'];
  return typeof digest === 'string' ? digest : undefined;
}

function addFindings(findings: ColdFindings, reply: HttpReply): void {
  const {
    cold_objects_sampled: sampled,
    cold_objects_unreadable: unreadable,
    cold_reason: reason,
  } = membersOf(reply.text);
  if (typeof sampled === 'number') findings.sampled += sampled;
  if (typeof unreadable === 'number') findings.unreadable += unreadable;
  if (typeof reason === 'string' && findings.reason === '') findings.reason = reason;
}

const SHOWN = 3;

/**
 * Throws a Failure when any node holds anything: one that is behind does not know it yet. Checked before anything is
 * sent, because groups that are empty would take theirs. A node that cannot say leaves it to the groups themselves.
 */
export async function checkFree(cluster: Cluster): Promise<void> {
  const found = await Promise.all(cluster.nodes.map((node) => bucketsOf(cluster, node)));
  const buckets = [...new Set(found.flat())];
  if (buckets.length === 0) return;
  const shown = buckets.slice(0, SHOWN).map((name) => JSON.stringify(name));
  const more = buckets.length > SHOWN ? ` and ${buckets.length - SHOWN} more` : '';
  throw new Failure(
    `the cluster is not empty: it has the buckets ${shown.join(', ')}${more}; nothing was restored, because a backup wants a fresh cluster (--resume goes on with a restore that was interrupted)`,
  );
}

/** The usage report also lists removed buckets, whose counters a restore would lose. */
async function bucketsOf(cluster: Cluster, node: Cluster['nodes'][number]): Promise<string[]> {
  try {
    const reply = await cluster.call(node, 'GET', '/__svc/usage');
    const { buckets } = reply.status === 200 ? membersOf(reply.text) : {};
    return typeof buckets === 'object' && buckets !== null ? Object.keys(buckets) : [];
  } catch (error) {
    if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
    return [];
  }
}
