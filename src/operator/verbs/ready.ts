/** The verbs that wait: for a cluster that starts, for one node that comes back, for all of it to be in order. */
import { waitCaughtUp } from '../wait-caught-up.ts';
import { CONFIG, LAG, NODE, type Verb, asking, openCluster, paceOf, pollInterval, seconds } from '../context.ts';
import { EXIT_ABORTED, Failure } from '../../nodes/failure.ts';
import { whyNotServing } from '../ready.ts';
import type { ClusterSnapshot } from '../../nodes/cluster-snapshot.ts';
import { clusterReady, settle } from '../waiting.ts';

export const waitReady: Verb = {
  name: 'wait-ready',
  about: 'wait until every node reports all groups with leaders',
  examples: ['millracectl wait-ready --expected-groups 16 --timeout-secs 300'],
  flags: {
    config: CONFIG,
    'expected-groups': { kind: 'integer', about: 'raft.group_count of the cluster', required: true, min: 1 },
    'timeout-secs': seconds(120, 'bound of the wait'),
    'poll-interval-secs': pollInterval(1),
    ...asking(5),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const groups = values.integer('expected-groups');
    const total = cluster.nodes.length;
    const show = (objection: string, snapshot: ClusterSnapshot): void => {
      const done = snapshot.filter((answer) => whyNotServing([answer], groups) === undefined).length;
      progress.step(done, total, `nodes ready; ${objection}`);
    };
    await settle(cluster, paceOf(values), {
      looks: 1,
      why: (snapshot) => whyNotServing(snapshot, groups),
      problem: 'not ready',
      show,
    });
    progress.end();
    say(`ready: ${total} node(s), ${groups} groups each`);
  },
};

export const wait: Verb = {
  name: 'wait',
  about: 'wait until one node is a caught-up voter of every group',
  examples: ['millracectl wait --node 2'],
  flags: {
    config: CONFIG,
    node: NODE,
    'stall-timeout-secs': seconds(90, 'give up when nothing moves for so long'),
    'ready-timeout-secs': seconds(1800, 'bound of the whole wait'),
    'poll-interval-secs': pollInterval(),
    'lag-tolerance': LAG,
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const node = cluster.node(values.integer('node'));
    const options = {
      intervalMs: values.ms('poll-interval-secs'),
      stallTimeoutMs: values.ms('stall-timeout-secs'),
      readyTimeoutMs: values.ms('ready-timeout-secs'),
      lagMax: values.integer('lag-tolerance'),
    };
    try {
      await waitCaughtUp(cluster, node, options, progress);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      throw new Failure(`node ${node.id}: NOT READY (${error.message})`, EXIT_ABORTED, { cause: error });
    }
    progress.end();
    say(`node ${node.id}: caught up`);
  },
};

export const verifyCluster: Verb = {
  name: 'verify-cluster',
  about: 'check strictly that every node is a caught-up voter everywhere',
  examples: ['millracectl verify-cluster --timeout-secs 30'],
  flags: {
    config: CONFIG,
    'timeout-secs': seconds(120, 'bound of the wait'),
    'poll-interval-secs': pollInterval(),
    'lag-tolerance': LAG,
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    await clusterReady(cluster, paceOf(values), values.integer('lag-tolerance'), progress);
    progress.end();
    say(`cluster verified: ${cluster.nodes.length} node(s) fully ready`);
  },
};
