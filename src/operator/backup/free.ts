/** Whether a cluster may take a backup: looked at before anything is sent, because groups that are empty would take theirs. */
import type { Cluster } from '../cluster.ts';
import { Failure, Interrupted } from '../failure.ts';

const SHOWN = 3;

/** Throws a Failure when there is anything. A node that cannot say leaves it to the groups themselves (restore.ts). */
export async function checkFree(cluster: Cluster): Promise<void> {
  for (const node of cluster.nodes) {
    const buckets = await bucketsOf(cluster, node);
    if (buckets === undefined) continue;
    if (buckets.length === 0) return;
    const shown = buckets.slice(0, SHOWN).map((name) => JSON.stringify(name));
    const more = buckets.length > SHOWN ? ` and ${buckets.length - SHOWN} more` : '';
    throw new Failure(
      `the cluster is not empty: it has the buckets ${shown.join(', ')}${more}; nothing was restored, because a backup wants a fresh cluster (--resume goes on with a restore that was interrupted)`,
    );
  }
}

/** Of the usage report, which also has those that were removed: their counters would be lost. */
async function bucketsOf(cluster: Cluster, node: Cluster['nodes'][number]): Promise<string[] | undefined> {
  try {
    const reply = await cluster.call(node, 'GET', '/__svc/usage');
    if (reply.status !== 200) return undefined;
    const { buckets } = JSON.parse(reply.text) as { readonly buckets?: unknown };
    return typeof buckets === 'object' && buckets !== null ? Object.keys(buckets) : undefined;
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    if (error instanceof Failure || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
