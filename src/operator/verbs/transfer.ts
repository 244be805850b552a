import { groupViews } from '../cluster-snapshot.ts';
import type { Flag } from '../flags.ts';
import { CONFIG, type Verb, asking, openCluster } from '../context.ts';
import { Failure, UsageError } from '../failure.ts';

const GROUP: Flag = { kind: 'integer', value: 'GROUP', about: 'the group', required: true };
const TO: Flag = {
  kind: 'integer',
  value: 'ID',
  about: 'the node that is to lead it, one of its voters',
  required: true,
  min: 1,
};

export const transfer: Verb = {
  name: 'transfer',
  about: 'begin to hand the leadership of one group to another node',
  examples: ['millracectl transfer --group 3 --to 2'],
  flags: { config: CONFIG, group: GROUP, to: TO, ...asking() },
  run: async (context) => {
    const { values, say } = context;
    const cluster = await openCluster(context);
    const [group, to] = [values.integer('group'), values.integer('to')];
    const view = groupViews(await cluster.snapshot()).find(({ id }) => id === group);
    if (view === undefined) throw new UsageError(`no node that answers has group ${group}`);
    if (!view.voters.includes(to)) {
      throw new UsageError(`node ${to} is no voter of group ${group}; its voters are ${view.voters.join(', ')}`);
    }
    if (view.leader === undefined) throw new Failure(`group ${group} has no leader`);
    if (view.leader === to) return say(`group ${group}: node ${to} leads it already`);
    const { started, reason } = await cluster.transfer(cluster.node(view.leader), group, to);
    if (!started) throw new Failure(`group ${group}: node ${view.leader} does not hand over: ${reason}`);
    return say(`group ${group}: node ${view.leader} hands over to node ${to}`);
  },
};
