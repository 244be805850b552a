/**
 * A rolling restart: per node the same checks as a drain, the drain, the operator's command, the wait until
 * the new process has caught up, the mark lifted. Whatever goes wrong ends the rollout;
 * what was done and what is left is said.
 */
import type { Cluster } from '../../nodes/cluster.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import { waitCaughtUp } from '../wait-caught-up.ts';
import {
  CONFIG,
  type Context,
  DRY_RUN,
  LAG,
  type Verb,
  asking,
  openCluster,
  pollInterval,
  seconds,
  textFlag,
} from '../context.ts';
import { checkAlone, completeSnapshot, describePlan, giveAway, preflight, underMark, withoutName } from '../drain.ts';
import { EXIT_ABORTED, Failure, UsageError } from '../../nodes/failure.ts';
import { renderCommand, runCommand, tellsNodesApart } from '../restart-command.ts';
import { type ClusterSnapshot, reportOf } from '../../nodes/cluster-snapshot.ts';
import { isMarked } from '../../nodes/report.ts';

/** A cluster that is not in order before a restart is not waited for as long as a node that comes back. */
const PREFLIGHT_MS_MAX = 120_000;

export const restart: Verb = {
  name: 'restart',
  about: 'restart all nodes or some, one after the other, without a lost write',
  examples: [
    "millracectl restart --restart-cmd 'ssh {host} sudo systemctl restart millrace' --dry-run",
    "millracectl restart --only 2,3 --restart-cmd 'ssh {host} sudo systemctl restart millrace'",
  ],
  flags: {
    config: CONFIG,
    'restart-cmd': textFlag(
      'COMMAND',
      'restarts {host} (also {node_id} {name} {instance_id} {admin_host} {admin_port}); else provider.restart_cmd of the file',
    ),
    only: { kind: 'ids', about: 'these nodes, in this order' },
    'drain-timeout-secs': seconds(60, 'bound for handing over the leaderships of a node'),
    'restart-timeout-secs': seconds(300, 'bound of the restart command'),
    'stall-timeout-secs': seconds(90, 'give up when a node that comes back gets nowhere for so long'),
    'ready-timeout-secs': seconds(1800, 'bound of the wait for a node'),
    'poll-interval-secs': pollInterval(),
    'lag-tolerance': LAG,
    'dry-run': DRY_RUN,
    ...asking(),
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const cluster = await openCluster(context);
    const chosen = values.ids('only')?.map((id) => cluster.node(id)) ?? cluster.nodes;
    const template = templateOf(context, cluster, chosen);
    const isDry = values.isSet('dry-run');
    const snapshot = isDry ? await completeSnapshot(cluster) : await cluster.snapshot();
    const nodes = inOrder(chosen, snapshot, (text) => progress.note(text));
    if (isDry) {
      for (const node of nodes) {
        for (const line of describePlan(snapshot, node))
          say(line.startsWith('node ') ? line : `node ${node.id}: ${line}`);
        say(`node ${node.id}: would run: ${renderCommand(template, node)}`);
      }
      return;
    }
    for (const [i, node] of nodes.entries()) {
      progress.note(`node ${node.id}: ${i + 1} of ${nodes.length}`);
      try {
        await restartOne(context, cluster, node, renderCommand(template, node));
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        throw ended(error, node, nodes.slice(0, i), nodes.slice(i));
      }
    }
    say(`restart complete: ${nodes.length} node(s)`);
  },
};

/** Checked for every node before anything is done. */
function templateOf({ values }: Context, cluster: Cluster, nodes: readonly ClusterNode[]): string {
  const template = values.text('restart-cmd') ?? cluster.file.restartCommand;
  if (template === undefined)
    throw new UsageError("restart needs --restart-cmd COMMAND, such as 'ssh {host} sudo systemctl restart millrace'");
  if (!tellsNodesApart(template, nodes))
    throw new UsageError('the restart command is the same for every node; name the node in it, for instance by {host}');
  return template;
}

/** A node that carries a mark is where an earlier rollout was killed: it goes first, so that never two are drained. */
function inOrder(
  chosen: readonly ClusterNode[],
  snapshot: ClusterSnapshot,
  note: (text: string) => void,
): ClusterNode[] {
  const marked = chosen.filter(({ id }) => isMarked(reportOf(snapshot, id)));
  for (const { id } of marked) note(`node ${id}: has the mark of an earlier run, so it goes first`);
  return [...marked, ...chosen.filter((node) => !marked.includes(node))];
}

async function restartOne(context: Context, cluster: Cluster, node: ClusterNode, command: string): Promise<void> {
  const { values, progress, say } = context;
  const options = {
    intervalMs: values.ms('poll-interval-secs'),
    drainTimeoutMs: values.ms('drain-timeout-secs'),
    readyTimeoutMs: Math.min(PREFLIGHT_MS_MAX, values.ms('ready-timeout-secs')),
    lagMax: values.integer('lag-tolerance'),
    // Looked at under this node's own mark, below.
    force: true,
  };
  await preflight(cluster, node, options, progress);
  const startedMs = performance.now();
  let drainedMs = 0;
  await underMark(cluster, node, progress, async () => {
    await checkAlone(cluster, node, options.intervalMs);
    const count = await giveAway(cluster, node, options, progress);
    drainedMs = performance.now();
    progress.note(`node ${node.id}: leads nothing any more (${count} handed over); ${command}`);
    await runCommand(command, {
      timeoutMs: values.ms('restart-timeout-secs'),
      signal: cluster.signal,
      env: context.env,
      tell: (text) => context.err.sink.write(text),
    });
    const wait = {
      ...options,
      stallTimeoutMs: values.ms('stall-timeout-secs'),
      readyTimeoutMs: values.ms('ready-timeout-secs'),
      sinceMs: drainedMs,
    };
    await waitCaughtUp(cluster, node, wait, progress);
    await cluster.mark(node, 'serving');
  });
  progress.end();
  const seconds = (ms: number): string => (ms / 1000).toFixed(1);
  const back = performance.now() - drainedMs;
  say(`node ${node.id}: restarted (drained in ${seconds(drainedMs - startedMs)} s, back after ${seconds(back)} s)`);
}

function ended(error: Failure, node: ClusterNode, done: readonly ClusterNode[], left: readonly ClusterNode[]): Failure {
  const names = (nodes: readonly ClusterNode[]): string => nodes.map(({ id }) => id).join(',');
  const before = done.length === 0 ? 'no node was restarted before it' : `restarted before it: ${names(done)}`;
  const { message } = error;
  const text = message.includes('ABORTED') ? message : `node ${node.id}: ABORTED (${withoutName(message, node)})`;
  return new Failure(`${text}; ${before}; go on with --only ${names(left)}`, EXIT_ABORTED, { cause: error });
}
