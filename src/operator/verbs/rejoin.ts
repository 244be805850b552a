/** A node that lost its disk is not believed until an operator says so, once, to the leader of each of its groups. */
import type { Cluster } from '../../nodes/cluster.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import { CONFIG, LAG, NODE, type Verb, asking, openCluster, seconds } from '../context.ts';
import { Failure, Interrupted } from '../../nodes/failure.ts';
import { Mistake } from '../../nodes/http-client.ts';
import type { ProgressBar } from '../progress-bar.ts';
import { needsPermission, whyLeaderless } from '../ready.ts';
import {
  type GroupView,
  type ClusterSnapshot,
  groupOf,
  groupViews,
  nameGroups,
  reportOf,
} from '../../nodes/cluster-snapshot.ts';
import { failIfMistaken, pause } from '../waiting.ts';

const RETRY_MS = 100;
/** A node that is only behind has applied something after this. */
const LOOK_MS = 1000;
const CALLS_AT_ONCE = 16;

export const allowRejoin: Verb = {
  name: 'allow-rejoin',
  about: 'let a node that lost its disk be refilled by the others',
  examples: ['millracectl allow-rejoin --node 3'],
  flags: {
    config: CONFIG,
    node: NODE,
    'lag-tolerance': LAG,
    'timeout-secs': seconds(30, 'bound of the wait for nodes and leaders'),
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const node = cluster.node(values.integer('node'));
    if ((await cluster.answerOf(node)).report === undefined)
      progress.note(`node ${node.id} does not answer, so it is taken at your word that it lost its log`);
    const options = { lagMax: values.integer('lag-tolerance'), timeoutMs: values.ms('timeout-secs') };
    const armed = await arm(cluster, node, options, progress);
    progress.end();
    if (armed.length === 0) return say(`node ${node.id}: has its log in every group, so there is nothing to allow`);
    const where = armed.length < armed[0]!.of ? ` (of ${nameGroups(armed.map(({ group }) => group))})` : '';
    return say(`node ${node.id}: empty-log rejoin armed on every group leader${where}`);
  },
};

interface Armed {
  readonly group: number;
  /** How many groups the node votes in. */
  readonly of: number;
}

/**
 * Rounds until no leader has moved; what was allowed is allowed once, so a repetition does no harm. Leaders
 * that do not answer are asked again until the time is over.
 */
async function arm(
  cluster: Cluster,
  node: ClusterNode,
  { lagMax, timeoutMs }: ArmOptions,
  progress: ProgressBar,
): Promise<readonly Armed[]> {
  const deadlineMs = performance.now() + timeoutMs;
  const done = new Map<number, number>();
  const asked = new Set<number>();
  const before = await cluster.snapshot();
  await pause(LOOK_MS, cluster.signal);
  for (let round = 0; ; round++) {
    const snapshot = await cluster.snapshot();
    failIfMistaken(snapshot);
    const member = groupViews(snapshot).filter(({ voters }) => voters.includes(node.id));
    const needy = member.filter(({ id }) => needsPermission(id, { snapshot, before, nodeId: node.id, lagMax }));
    const open = needy.filter((view) => view.leader === undefined || done.get(view.id) !== view.term);
    // A permission is gone with the leader that had it, unless the node has heard of it.
    const unheard = needy.filter(({ id }) => groupOf(reportOf(snapshot, node.id), id)?.logLost === true);
    if (member.length > 0 && open.length === 0 && unheard.length === 0)
      return [...asked].map((group) => ({ group, of: member.length }));
    const refusals = await askLeaders(cluster, node, open, { done, asked });
    const left = open.filter((view) => view.leader === undefined || done.get(view.id) !== view.term);
    const isAllowed = member.length > 0 && left.length === 0 && unheard.length === 0;
    // The next look shows whether leaders have moved meanwhile. Those that go on moving are waited for as others.
    if (isAllowed && (round === 0 || performance.now() < deadlineMs)) continue;
    const moving = isAllowed ? open : left;
    const why =
      member.length === 0 ? whyNoMember(snapshot, node.id) : (refusals[0] ?? whyOpen(snapshot, moving, node.id));
    const hint = member.length === 0 ? '' : `; without a majority no node can refill node ${node.id}`;
    if (performance.now() >= deadlineMs) throw new Failure(`not within ${timeoutMs / 1000} s: ${why}${hint}`);
    progress.waiting(why);
    await pause(RETRY_MS, cluster.signal);
  }
}

interface ArmOptions {
  readonly lagMax: number;
  readonly timeoutMs: number;
}

interface Calls {
  /** Group -> the term of the leader that agreed. */
  readonly done: Map<number, number>;
  /** Also those whose leader may have agreed without an answer. */
  readonly asked: Set<number>;
}

/** Asks the leaders of these groups; why some did not do it. */
async function askLeaders(
  cluster: Cluster,
  node: ClusterNode,
  groups: readonly GroupView[],
  { done, asked }: Calls,
): Promise<string[]> {
  const refusals: string[] = [];
  const ask = async ({ id, leader, term }: GroupView): Promise<void> => {
    if (leader === undefined || leader === node.id) return;
    try {
      if (!(await cluster.allowRevert(cluster.node(leader), id, node.id))) return;
      done.set(id, term);
      asked.add(id);
    } catch (error) {
      // Perhaps it has just died, and the group has another leader in a moment.
      if (error instanceof Interrupted || error instanceof Mistake || !(error instanceof Failure)) throw error;
      asked.add(id);
      refusals.push(`group ${id} is led by node ${leader}: ${error.message}`);
    }
  };
  for (let at = 0; at < groups.length; at += CALLS_AT_ONCE)
    await Promise.all(groups.slice(at, at + CALLS_AT_ONCE).map(ask));
  return refusals;
}

function whyNoMember(snapshot: ClusterSnapshot, node: number): string {
  const silent = snapshot.filter(({ report }) => report === undefined);
  const reasons = silent.map(({ nodeId, error }) => `node ${nodeId}: ${error}`).join('; ');
  if (silent.length === snapshot.length) return `no node answers (${reasons})`;
  return `no node that answers has node ${node} among its voters${reasons === '' ? '' : ` (${reasons})`}`;
}

function whyOpen(snapshot: ClusterSnapshot, open: readonly GroupView[], node: number): string {
  const own = open.filter(({ leader }) => leader === node).map(({ id }) => id);
  if (own.length > 0) return `${nameGroups(own)} ${own.length === 1 ? 'is' : 'are'} led by node ${node} itself`;
  if (open.length === 0) return `node ${node} has yet to hear of it`;
  return whyLeaderless(snapshot) ?? `the leadership of ${nameGroups(open.map(({ id }) => id))} has just moved`;
}

export const prepareRestart: Verb = {
  name: 'prepare-restart',
  about: 'nothing to do here: logs are on disk',
  examples: ['millracectl prepare-restart --node 3'],
  flags: { config: CONFIG, node: NODE, ...asking() },
  run: async (context) => {
    const node = (await openCluster(context)).node(context.values.integer('node'));
    context.say(`node ${node.id}: its log is on disk, a restart needs no preparation`);
    return await Promise.resolve();
  },
};
