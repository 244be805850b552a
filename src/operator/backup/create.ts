/**
 * One group: the nodes are asked what they have, the one that has applied most sends it, and it is looked at on its way. A node that
 * does not answer is no failure; `absent` then says why.
 */
import { type Contents, DocumentReader } from '../../backup/format/document.ts';
import type { Location } from '../../backup/format/location.ts';
import { type GroupEntry, objectName } from '../../backup/format/manifest.ts';
import { Fault, check } from '../../backup/state/fault.ts';
import type { Cluster } from '../cluster.ts';
import type { ClusterNode } from '../cluster-file.ts';
import { Failure, Interrupted, reasonOf } from '../failure.ts';
import { whyEnded } from './info.ts';
import { type Download, EndedEarly, download } from './transfer.ts';

export interface Created {
  readonly entry: GroupEntry;
  /** In the cold store, to which it refers. */
  readonly coldObjects: number;
  readonly bucketNames: readonly string[];
}

export async function createGroup(
  cluster: Cluster,
  location: Location,
  group: number,
  groupCount: number,
  absent: Map<number, string>,
  moved: (bytes: number) => void,
): Promise<Created> {
  const reasons: string[] = [];
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
      return await take(best, location, group, groupCount, moved);
    } catch (error) {
      // A location that fails would fail for the next node too; what a node sends may be better on another.
      if (error instanceof Interrupted || !(error instanceof Failure || error instanceof BadDocument)) throw error;
      const why = error instanceof EndedEarly ? await whyEnded(cluster, best.node, group) : undefined;
      reasons.push(`node ${best.node.id}: ${reasonOf(error)}${why === undefined ? '' : `: ${why}`}`);
      nodes = others.map(({ node }) => node);
    } finally {
      best.cancel();
    }
  }
  throw new Failure(`group ${group}: no node sends it; ${reasons.join('; ')}`);
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
  location: Location,
  group: number,
  groupCount: number,
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
