/**
 * Moving the voters of all groups: a node is added as a learner, catches up, and votes; a node that
 * goes hands over what it leads and is taken out. Group by group, a few at once; every step may be
 * repeated, so a run that was killed is finished by another one.
 */
import type { Cluster } from '../nodes/cluster.ts';
import { Failure, Interrupted } from '../nodes/failure.ts';
import { Mistake, reasonIn, refusal } from '../nodes/http-client.ts';
import type { ProgressBar } from './progress-bar.ts';
import { type GroupView, type ClusterSnapshot, groupViews, nameGroups, reportOf } from '../nodes/cluster-snapshot.ts';
import { planDrain } from './successors.ts';
import { type PollPace, failIfMistaken, pause } from './waiting.ts';

/** Snapshots go to a node two at a time per core, and each change makes its group's log wait for it. */
const GROUPS_AT_ONCE = 4;

/** Returns what a group still needs; undefined when it is done. */
type Step = (group: GroupView, snapshot: ClusterSnapshot) => Promise<string | undefined>;

export interface NewMember {
  readonly node: number;
  /** Undefined: the nodes have it in raft.peers. */
  readonly address: string | undefined;
}

/** Makes the node a voter of every group. */
export function addMember(
  cluster: Cluster,
  { node, address }: NewMember,
  pace: PollPace,
  progress: ProgressBar,
): Promise<number> {
  const isDone = ({ voters, isPending }: GroupView): boolean => voters.includes(node) && !isPending;
  const query = address === undefined ? '' : `?addr=${encodeURIComponent(address)}`;
  const step: Step = async ({ id, leader, voters, from }) => {
    if (leader !== from) return whyUnheard(cluster, id, leader);
    if (!voters.includes(node)) {
      const learner = await change(cluster, leader, `/__svc/raft/${id}/learners/${node}${query}`);
      if (learner !== undefined) return learner;
    }
    const all = voters.filter((voter) => voter !== node).concat(node);
    return await change(cluster, leader, `/__svc/raft/${id}/membership?voters=${all.join(',')}`);
  };
  return throughGroups(cluster, { isDone, step, what: `groups have node ${node} as a voter` }, pace, progress);
}

/** Takes the node out of every group; it may be dead. */
export function removeMember(cluster: Cluster, node: number, pace: PollPace, progress: ProgressBar): Promise<number> {
  const isDone = ({ leader, voters, learners, isPending, from }: GroupView): boolean =>
    leader === from && !isPending && !voters.includes(node) && !learners.includes(node);
  const step: Step = async ({ id, leader, voters, isPending, from }, snapshot) => {
    const rest = voters.filter((voter) => voter !== node);
    const isVoter = voters.includes(node);
    // First: a group that has no leader because of that is not waited for.
    if (isVoter) checkRest(snapshot, id, node, rest);
    if (leader !== from) return whyUnheard(cluster, id, leader);
    if (!isVoter && !isPending) return await change(cluster, leader, `/__svc/raft/${id}/learners/${node}`, 'DELETE');
    // The leader answers when the change is committed, also one that an earlier call started.
    if (leader !== node || !isVoter)
      return await change(cluster, leader, `/__svc/raft/${id}/membership?voters=${rest.join(',')}`);
    const { transfers, immovable } = planDrain(snapshot, node);
    const to = transfers.find((one) => one.group === id)?.to;
    if (to === undefined)
      return `group ${id}: ${immovable.find((one) => one.group === id)?.why ?? 'its leader has just moved'}`;
    const reason = await cluster.transfer(cluster.node(leader), id, to);
    return reason === undefined ? `group ${id} is on its way to node ${to}` : `group ${id} to node ${to}: ${reason}`;
  };
  return throughGroups(cluster, { isDone, step, what: `groups are without node ${node}` }, pace, progress);
}

/** Voters that would stay must be able to go on without the one that leaves. */
function checkRest(snapshot: ClusterSnapshot, group: number, node: number, rest: readonly number[]): void {
  if (rest.length === 0) throw new Failure(`node ${node} is the only voter of group ${group}; add another node first`);
  const answering = rest.filter((voter) => reportOf(snapshot, voter) !== undefined);
  if (answering.length * 2 > rest.length) return;
  throw new Failure(
    `without node ${node} the voters of group ${group} are ${rest.join(', ')}, and most of them do not answer: the group would stop`,
  );
}

/** The leader alone knows for sure who votes: any other node may lag, or have a log from before its disk was lost. */
function whyUnheard({ nodes, file }: Cluster, group: number, leader: number | undefined): string {
  if (leader === undefined) return `group ${group} has no leader`;
  const isListed = nodes.some(({ id }) => id === leader);
  return `node ${leader}, which leads group ${group}, ${isListed ? 'does not answer' : `is not in ${file.label}`}`;
}

/** Undefined: done. A string: why not yet. */
async function change(cluster: Cluster, leader: number, path: string, method = 'POST'): Promise<string | undefined> {
  try {
    const reply = await cluster.call(cluster.node(leader), method, path);
    if (reply.status === 200) return undefined;
    // 409: the leader has moved; 503: it takes longer, or another change is under way.
    if (reply.status === 409 || reply.status === 503) return reasonIn(reply.text) ?? refusal(reply);
    throw new Mistake(`node ${leader}: ${refusal(reply)}`);
  } catch (error) {
    if (error instanceof Interrupted || error instanceof Mistake || !(error instanceof Failure)) throw error;
    return error.message;
  }
}

interface Work {
  readonly isDone: (group: GroupView) => boolean;
  readonly step: Step;
  /** Describes the groups that are done. */
  readonly what: string;
}

/** The number of groups. */
async function throughGroups(
  cluster: Cluster,
  { isDone, step, what }: Work,
  { timeoutMs, intervalMs }: PollPace,
  progress: ProgressBar,
): Promise<number> {
  const deadlineMs = performance.now() + timeoutMs;
  let reason: string | undefined;
  for (let round = 0; ; round++) {
    const snapshot = await cluster.snapshot();
    failIfMistaken(snapshot);
    const groups = groupViews(snapshot);
    const open = groups.filter((group) => !isDone(group));
    if (groups.length > 0 && open.length === 0) return groups.length;
    if (groups.length === 0) reason = 'no node reports a group';
    progress.step(groups.length - open.length, groups.length, what);
    if (round > 0 && performance.now() >= deadlineMs) {
      const left = open.length === 0 ? '' : `${nameGroups(open.map(({ id }) => id))} left; `;
      const last = reason === undefined ? '' : `${reason}; `;
      throw new Failure(`not within ${timeoutMs / 1000} s: ${left}${last}repeat the command to go on`);
    }
    const reasons = await Promise.all(open.slice(0, GROUPS_AT_ONCE).map((group) => step(group, snapshot)));
    if (groups.length > 0) reason = reasons.find((one) => one !== undefined);
    if (reason === undefined) continue;
    progress.waiting(reason);
    await pause(intervalMs, cluster.signal);
  }
}
