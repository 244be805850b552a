/** Verbs that move leaderships: those of a node, or that of one group. */
import { groupViews } from '../../nodes/cluster-snapshot.ts';
import {
  CONFIG,
  type Context,
  DRY_RUN,
  LAG,
  NODE,
  type Verb,
  asking,
  openCluster,
  pollInterval,
  seconds,
} from '../context.ts';
import { checkAlone, completeSnapshot, describePlan, giveAway, preflight, underMark } from '../drain.ts';
import { Failure, UsageError } from '../../nodes/failure.ts';
import type { Flag } from '../flags.ts';

export const drain: Verb = {
  name: 'drain',
  about: 'mark a node for maintenance and hand its leaderships to others',
  examples: ['millracectl drain --node 2 --dry-run', 'millracectl drain --node 2'],
  flags: {
    config: CONFIG,
    node: NODE,
    'drain-timeout-secs': seconds(60, 'bound for handing over'),
    'ready-timeout-secs': seconds(120, 'bound of the readiness checks before and after'),
    'poll-interval-secs': pollInterval(),
    'lag-tolerance': LAG,
    'dry-run': DRY_RUN,
    force: { kind: 'switch', about: 'also while another node is marked' },
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const node = cluster.node(values.integer('node'));
    if (values.isSet('dry-run')) {
      for (const line of describePlan(await completeSnapshot(cluster), node)) say(line);
      return;
    }
    const options = {
      intervalMs: values.ms('poll-interval-secs'),
      drainTimeoutMs: values.ms('drain-timeout-secs'),
      readyTimeoutMs: values.ms('ready-timeout-secs'),
      lagMax: values.integer('lag-tolerance'),
      force: values.isSet('force'),
    };
    await preflight(cluster, node, options, progress);
    const count = await underMark(cluster, node, progress, async () => {
      // When two drains begin together, at least one sees the other's mark.
      if (!options.force) await checkAlone(cluster, node, options.intervalMs);
      return await giveAway(cluster, node, options, progress);
    });
    progress.end();
    const had = count === 0 ? 'it led nothing' : `${count} leadership${count === 1 ? '' : 's'} handed over`;
    say(`node ${node.id}: drained (${had}; marked until undrain)`);
  },
};

export const undrain: Verb = {
  name: 'undrain',
  about: 'lift the mark of a drain: the node may lead again',
  examples: ['millracectl undrain --node 2'],
  flags: { config: CONFIG, node: NODE, ...asking() },
  run: async (context: Context) => {
    const cluster = await openCluster(context);
    const node = cluster.node(context.values.integer('node'));
    try {
      await cluster.mark(node, 'serving');
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const text = error.message.startsWith('node ') ? error.message : `node ${node.id}: ${error.message}`;
      throw new Failure(`${text}; a mark that is set stays, also over restarts`, error.exitCode, { cause: error });
    }
    context.say(`node ${node.id}: drain mark cleared`);
  },
};

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
    const reason = await cluster.transfer(cluster.node(view.leader), group, to);
    if (reason !== undefined) throw new Failure(`group ${group}: node ${view.leader} does not hand over: ${reason}`);
    return say(`group ${group}: node ${view.leader} hands over to node ${to}`);
  },
};
