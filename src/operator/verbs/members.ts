/** Shows and moves voters. `add-member` of the new node and `remove-member` of the old one replace a voter. */
import type { Flag } from '../flags.ts';
import { CONFIG, NODE, type Verb, asking, openCluster, paceOf, pollInterval, seconds, textFlag } from '../context.ts';
import { addMember, removeMember } from '../membership.ts';
import { OUTPUT, wantsJson } from '../output.ts';
import { type ClusterSnapshot, groupViews, nameGroups } from '../../nodes/cluster-snapshot.ts';

/** The bytes of the groups have to travel. */
const MOVE_TIMEOUT_SECONDS = 3600;
/** A call is answered when a change is committed, or after 10 s. */
const CALL_TIMEOUT_SECONDS = 30;

const MOVE_FLAGS: Readonly<Record<string, Flag>> = {
  config: CONFIG,
  node: NODE,
  'timeout-secs': seconds(MOVE_TIMEOUT_SECONDS, 'bound of the whole'),
  'poll-interval-secs': pollInterval(0.5),
  ...asking(CALL_TIMEOUT_SECONDS),
};

export const members: Verb = {
  name: 'members',
  about: 'show who votes and who learns in which groups',
  examples: ['millracectl members'],
  onlyShows: true,
  flags: { config: CONFIG, ...OUTPUT, ...asking() },
  run: async (context) => {
    const snapshot = await (await openCluster(context)).snapshot();
    const all = membersOf(snapshot);
    if (wantsJson(context.values)) return context.say(JSON.stringify({ members: all }));
    if (all.length === 0) return context.say('no node reports a group');
    const total = groupViews(snapshot).length;
    for (const { node_id: node, voter_of: votes, learner_of: learns } of all) {
      const parts = [
        ...(votes.length === 0 ? [] : [`voter of ${rangeOf(votes, total)}`]),
        ...(learns.length === 0 ? [] : [`learner of ${rangeOf(learns, total)}`]),
      ];
      context.say(`node ${node}: ${parts.join(', ')}`);
    }
  },
};

interface Member {
  readonly node_id: number;
  readonly voter_of: readonly number[];
  readonly learner_of: readonly number[];
}

function membersOf(snapshot: ClusterSnapshot): Member[] {
  const members = new Map<number, { voter: Set<number>; learner: Set<number> }>();
  const of = (node: number): { voter: Set<number>; learner: Set<number> } => {
    const known = members.get(node) ?? { voter: new Set(), learner: new Set() };
    members.set(node, known);
    return known;
  };
  for (const { id, voters, outgoing, learners } of groupViews(snapshot)) {
    for (const node of [...voters, ...outgoing]) of(node).voter.add(id);
    for (const node of learners) of(node).learner.add(id);
  }
  return [...members]
    .sort(([a], [b]) => a - b)
    .map(([node, { voter, learner }]) => ({ node_id: node, voter_of: [...voter], learner_of: [...learner] }));
}

function rangeOf(groups: readonly number[], total: number): string {
  return groups.length === total ? `all ${total} groups` : nameGroups(groups);
}

export const addMemberVerb: Verb = {
  name: 'add-member',
  about: 'make a node a voter of every group; start it first, with an empty directory and without init_membership',
  examples: ['millracectl add-member --node 4 --addr 10.0.0.4:4440'],
  flags: {
    ...MOVE_FLAGS,
    addr: textFlag('HOST:PORT', 'its cluster_listen, when raft.peers of the others lack it'),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const node = values.integer('node');
    const count = await addMember(
      await openCluster(context),
      { node, address: values.text('addr') },
      paceOf(values),
      progress,
    );
    progress.end();
    say(`node ${node}: voter of all ${count} groups`);
  },
};

export const removeMemberVerb: Verb = {
  name: 'remove-member',
  about: 'take a node out of every group; stop it afterwards',
  examples: ['millracectl remove-member --node 3'],
  flags: MOVE_FLAGS,
  run: async (context) => {
    const { values, progress, say } = context;
    const node = values.integer('node');
    const count = await removeMember(await openCluster(context), node, paceOf(values), progress);
    progress.end();
    say(`node ${node}: no member of any of ${count} groups; stop it, and take it out of raft.peers`);
  },
};
