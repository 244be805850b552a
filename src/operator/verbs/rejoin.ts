/** A node that lost its disk is not believed until an operator says so, once, to the leader of each of its groups. */
import type { Cluster } from '../cluster.ts';
import type { ClusterNode } from '../cluster-file.ts';
import { CONFIG, LAG, NODE, type Verb, asking, openCluster } from '../context.ts';
import { Failure } from '../failure.ts';
import type { Progress } from '../progress.ts';
import { needsPermission } from '../ready.ts';
import { groupViews, nameGroups } from '../sample.ts';
import { pause } from '../waiting.ts';

/** Leaders move while they are asked. */
const TIMEOUT_MS = 30_000;
const RETRY_MS = 100;
/** A node that is only behind has applied something after this. */
const LOOK_MS = 1000;
const CALLS_AT_ONCE = 32;

export const allowRejoin: Verb = {
  name: 'allow-rejoin',
  about: 'let a node that lost its disk be refilled by the others',
  flags: {
    config: CONFIG,
    node: NODE,
    'lag-tolerance': LAG,
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = openCluster(context);
    const node = cluster.node(values.integer('node'));
    if ((await cluster.answerOf(node)).report === undefined)
      progress.note(`node ${node.id} does not answer, so it is taken at your word that it lost its log`);
    const armed = await arm(cluster, node, values.integer('lag-tolerance'), progress);
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

/** Rounds until no leader has moved; what was allowed is allowed once, so a repetition does no harm. */
async function arm(cluster: Cluster, node: ClusterNode, lagMax: number, progress: Progress): Promise<readonly Armed[]> {
  const deadlineMs = performance.now() + TIMEOUT_MS;
  const done = new Map<number, number>();
  const before = await cluster.sample();
  await pause(LOOK_MS, cluster.signal);
  for (;;) {
    const sample = await cluster.sample();
    const member = groupViews(sample).filter(({ voters }) => voters.includes(node.id));
    const silent = sample.every(({ report }) => report === undefined) ? sample[0] : undefined;
    if (silent !== undefined) throw new Failure(`no node answers; node ${silent.nodeId}: ${silent.error}`);
    if (member.length === 0) throw new Failure(`no node that answers has node ${node.id} among its voters`);
    const needy = member.filter(({ id }) => needsPermission(sample, before, node.id, id, lagMax));
    const open = needy.filter(({ id, leader }) => leader === undefined || done.get(id) !== leader);
    if (open.length === 0) return [...done.keys()].map((group) => ({ group, of: member.length }));
    const mute = open.filter(({ leader }) => leader === undefined).map(({ id }) => id);
    if (mute.length > 0) progress.waiting(`${nameGroups(mute)} ${mute.length === 1 ? 'has' : 'have'} no leader`);
    const askable = open.filter(({ leader }) => leader !== undefined && leader !== node.id);
    for (let at = 0; at < askable.length; at += CALLS_AT_ONCE) {
      const calls = askable.slice(at, at + CALLS_AT_ONCE).map(async ({ id, leader }) => {
        if (await cluster.allowRevert(cluster.node(leader as number), id, node.id)) done.set(id, leader as number);
      });
      await Promise.all(calls);
    }
    if (performance.now() >= deadlineMs) {
      const groups = nameGroups(open.map(({ id }) => id));
      throw new Failure(
        `${groups} had no leader to ask for ${TIMEOUT_MS / 1000} s; without a majority nobody can refill node ${node.id}`,
      );
    }
    if (open.some(({ id, leader }) => done.get(id) !== leader)) await pause(RETRY_MS, cluster.signal);
  }
}

export const prepareRestart: Verb = {
  name: 'prepare-restart',
  about: 'nothing to do here: logs are on disk',
  flags: { config: CONFIG, node: NODE, ...asking() },
  run: async (context) => {
    const node = openCluster(context).node(context.values.integer('node'));
    context.say(`node ${node.id}: its log is on disk, a restart needs no preparation`);
    return await Promise.resolve();
  },
};
