/**
 * The groups of a backup, one after the other. Each is sent by the node that has applied most of it and checked on its
 * way. A node that does not answer is no failure; `absent` then says why.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Contents, DocumentReader } from '../format/document.ts';
import type { Location } from '../format/location.ts';
import { type GroupEntry, isPartOfBackup, objectName } from '../format/manifest.ts';
import { Fault, check } from '../../stream/backup/fault.ts';
import { fnv1a64mod } from '../../base/hash.ts';
import { whyEnded } from './info.ts';
import { type Download, EndedEarly, download } from './transfer.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import type { Cluster } from '../../nodes/cluster.ts';
import { Failure, Interrupted, reasonOf } from '../../nodes/failure.ts';
import { LOG } from '../../subscriptions/state/record.ts';

export interface Created {
  readonly entry: GroupEntry;
  /** The objects in the cold store to which the backup refers. */
  readonly coldObjects: number;
  readonly bucketNames: readonly string[];
}

/** All groups of one backup share this. */
export interface BackupRun {
  readonly cluster: Cluster;
  readonly location: Location;
  readonly groupCount: number;
  /** Nodes that did not send a group, and why. */
  readonly absent: Map<number, string>;
  /** Told beside the progress. */
  readonly note: (text: string) => void;
}

/** A node that restarts is back with its groups within this time. */
const RESTART_MS = 60_000;
const AGAIN_MS = 500;
/** Restarts while one group is sent; a node that ends each time has something else. */
const RESTARTS_MAX = 3;

/** When the only node that could send the group restarts meanwhile, it sends it again. */
export async function createGroup(run: BackupRun, group: number, moved: (bytes: number) => void): Promise<Created> {
  let deadlineMs = -Infinity;
  for (let restarts = 0; ;) {
    try {
      return await sendGroup(run, group, moved);
    } catch (error) {
      if (!(error instanceof NotSent)) throw error;
      if (error.endedBy !== undefined) {
        const why = restarts++ < RESTARTS_MAX ? await whyRestarted(run, error.endedBy, group) : undefined;
        if (why === undefined) throw error;
        run.note(`node ${error.endedBy.id}: ${why}; it sends group ${group} again`);
        deadlineMs = performance.now() + RESTART_MS;
      } else if (performance.now() >= deadlineMs) {
        throw error;
      }
      await pause(run.cluster);
    }
  }
}

/** Waits for the node. Undefined: it did not restart, or is not back in time. */
async function whyRestarted({ cluster }: BackupRun, node: ClusterNode, group: number): Promise<string | undefined> {
  const deadlineMs = performance.now() + RESTART_MS;
  for (;;) {
    const why = await whyEnded(cluster, node, group);
    if (why !== null || performance.now() >= deadlineMs) return why?.code === 'node-restarted' ? why.reason : undefined;
    await pause(cluster);
  }
}

async function pause({ signal }: Cluster): Promise<void> {
  await delay(AGAIN_MS, undefined, { signal }).catch(() => {
    throw new Interrupted();
  });
}

class NotSent extends Failure {
  /** The last node that ended early. */
  endedBy: ClusterNode | undefined;
}

async function sendGroup(run: BackupRun, group: number, moved: (bytes: number) => void): Promise<Created> {
  const { cluster } = run;
  const reasons: string[] = [];
  const absent = new Map<number, string>();
  let endedBy: ClusterNode | undefined;
  let nodes = cluster.nodes;
  while (nodes.length > 0) {
    const offers = await offersOf(cluster, nodes, group, (node, reason) => {
      reasons.push(`node ${node}: ${reason}`);
      absent.set(node, reason);
    });
    // The first of several wins. The others end at once: a node keeps what it replaces for as long as it sends.
    const [best, ...others] = offers.toSorted((a, b) => b.commitIndex - a.commitIndex);
    for (const offer of others) offer.cancel();
    if (best === undefined) break;
    try {
      const created = await take(best, run, group, moved);
      for (const [node, reason] of absent) run.absent.set(node, reason);
      return created;
    } catch (error) {
      // A location that fails would fail for the next node too; what a node sends may be better on another.
      if (error instanceof Interrupted || !(error instanceof Failure || error instanceof BadDocument)) throw error;
      const hasEnded = error instanceof EndedEarly;
      if (hasEnded) endedBy = best.node;
      const why = hasEnded ? await whyEnded(cluster, best.node, group) : undefined;
      reasons.push(`node ${best.node.id}: ${reasonOf(error)}${why ? `: ${why.reason}` : ''}`);
      nodes = others.map(({ node }) => node);
    } finally {
      best.cancel();
    }
  }
  const failure = new NotSent(`group ${group}: no node sends it; ${reasons.join('; ')}`);
  failure.endedBy = endedBy;
  throw failure;
}

class BadDocument extends Fault {}

async function offersOf(
  cluster: Cluster,
  nodes: readonly ClusterNode[],
  group: number,
  missing: (node: number, reason: string) => void,
): Promise<Download[]> {
  const asked = nodes.map(async (node) => {
    try {
      return await download(cluster, node, `/__svc/backup/group/${group}`);
    } catch (error) {
      if (error instanceof Interrupted || !(error instanceof Failure)) throw error;
      missing(node.id, error.message);
      return undefined;
    }
  });
  return (await Promise.all(asked)).filter((offer) => offer !== undefined);
}

async function take(
  offer: Download,
  { location, groupCount }: BackupRun,
  group: number,
  moved: (bytes: number) => void,
): Promise<Created> {
  const reader = new DocumentReader(
    (head) =>
      check(
        head.group === group && head.groupCount === groupCount,
        `it sends group ${head.group} of ${head.groupCount}`,
      ),
    () => undefined,
  );
  let contents: Contents | undefined;
  const looked = async function* (): AsyncIterable<Uint8Array> {
    for await (const piece of offer.pieces) {
      judge(() => reader.push(piece));
      moved(piece.length);
      yield piece;
    }
    contents = judge(() => reader.end());
  };
  const object = objectName(group);
  await location.write(object, looked());
  if (contents === undefined) throw new Failure(`group ${group} was not read to its end`);
  const { bytes, digest: blake3, buckets, streams, head, objects } = contents;
  const index = head.commitIndex;
  return {
    entry: { raft_group_id: group, object, bytes, blake3, group_commit_index: index, buckets, streams },
    coldObjects: objects,
    bucketNames: contents.bucketNames,
  };
}

function judge<T>(look: () => T): T {
  try {
    return look();
  } catch (error) {
    if (error instanceof Fault) throw new BadDocument(`what it sends is not valid: ${error.message}`);
    throw error;
  }
}

/**
 * In which order groups are sent. Each is sent as of a moment of its own, so the group with the
 * cursors of subscriptions goes first: an acknowledged offset beyond the tail of a restored
 * stream would make its subscription skip the next events.
 */
export function sendOrder(groupCount: number): number[] {
  const first = fnv1a64mod(LOG.bucket, LOG.stream, groupCount);
  const all = Array.from({ length: groupCount }, (_, group) => group);
  return [first, ...all.filter((group) => group !== first)];
}

/** No group takes so long. */
const OLD_MS = 24 * 3_600_000;

/**
 * Ends uploads to S3 that an earlier attempt left open when it was killed: the bucket keeps and charges
 * for their parts. `all`: a process that still wrote here would spoil the backup. `old`: another attempt
 * may be running. A store that cannot tell fails no backup.
 */
export async function endUnfinished(
  location: Location,
  progress: { note(text: string): void },
  which: 'all' | 'old',
): Promise<void> {
  const isAll = which === 'all';
  try {
    const ended = await location.endUnfinished(isPartOfBackup, isAll ? Infinity : Date.now() - OLD_MS);
    if (ended === 0) return;
    const uploads = ended === 1 ? '1 unfinished upload' : `${ended} unfinished uploads`;
    progress.note(`${uploads} of earlier attempts at ${location.text} ${ended === 1 ? 'was' : 'were'} given up`);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isAll) progress.note(`uploads that earlier attempts left unfinished may be there (${error.message})`);
  }
}
