// The cost of an unused cluster: heartbeats and timers of 16 groups, as processor time per node.

import { setTimeout as sleep } from 'node:timers/promises';
import { cpuMsOf } from '../processes.ts';
import { check, type ScenarioReport } from '../report.ts';
import { leadersPerNode, millraceCluster } from '../targets/millrace-cluster.ts';
import { selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'cluster-idle';
const MEASURED_MS = 10_000;
/** Elections, first compilations and the garbage of the start are over by then. */
const SETTLE_MS = 5_000;
const PERCENT_MAX = 3;

async function run(context: Context): Promise<ScenarioReport[]> {
  if (selectTargets(context, NAME, [millraceCluster]).length === 0) return [];
  const cluster = await millraceCluster.start(context.start);
  try {
    const leaders = await leadersPerNode(cluster);
    context.say('an idle cluster is watched');
    await sleep(context.smoke ? 0 : SETTLE_MS);
    const beforeMs = cluster.nodes.map(({ pid }) => cpuMsOf(pid));
    const startMs = performance.now();
    await sleep(context.smoke ? 200 : MEASURED_MS);
    const elapsedMs = performance.now() - startMs;
    return [
      {
        scenario: NAME,
        title: `three nodes, ${leaders.reduce((sum, count) => sum + count, 0)} groups, no client`,
        rateUnit: '',
        rows: [],
        checks: cluster.nodes.map(({ pid }, index) => {
          const percent = (100 * (cpuMsOf(pid) - (beforeMs[index] as number))) / elapsedMs;
          const name = `processor of node ${index + 1}, which leads ${leaders[index]} groups`;
          return check(name, percent, ' % of a core', { atMost: PERCENT_MAX });
        }),
        notes: [`over ${(elapsedMs / 1000).toFixed(1)} s, user and system, all threads of the process`],
      },
    ];
  } finally {
    await cluster.stop();
  }
}

export const clusterIdle: Scenario = { name: NAME, summary: 'processor time of three idle nodes with 16 groups', run };
