// Replicated appends: three nodes and the load on the same machine, against the single-process reference server and two
// replicated rivals. Only one target runs at a time, with fresh data: idle clusters beside it would not be idle enough.

import { runPipelined } from '../load/pipelined.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import type { LoadResult } from '../stats.ts';
import { etcd } from '../targets/etcd.ts';
import { leadersPerNode, millraceCluster } from '../targets/millrace-cluster.ts';
import { nats } from '../targets/nats.ts';
import { NODES } from '../targets/nodes.ts';
import { referenceFile } from '../targets/reference.ts';
import { streamPath, type Running, type RunningCluster, type Target } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, type Context, type Rounds, type Scenario } from './scenario.ts';

const NAME = 'cluster';
const PAYLOAD_BYTES = 256;
/** Three node processes have three times the code to warm up on the same cores. */
const WARM_UPS = 2;
/** Of the rivals' writers; measured as their best, see `pipelined.ts` for why so few. */
const RIVAL_CONNECTIONS = 12;

interface Load {
  readonly context: Context;
  readonly streams: number;
  readonly pathsFile: string;
  readonly paths: readonly string[];
}

function portsOf(target: Running): number[] {
  // A single server gets the same three load threads.
  return 'nodes' in target
    ? (target as RunningCluster).nodes.map(({ port }) => port)
    : Array.from({ length: NODES }, () => target.port);
}

async function measure({ context, streams, pathsFile, paths }: Load, target: Running): Promise<LoadResult> {
  const ports = portsOf(target);
  const [warmUpMs, durationMs] = [context.warmUpMs * WARM_UPS, context.durationMs];
  if (target.protocol === 'etcd' || target.protocol === 'nats') {
    const connections = Math.min(RIVAL_CONNECTIONS, streams);
    const { protocol } = target;
    const run = { protocol, ports, connections, streams, payloadBytes: PAYLOAD_BYTES, warmUpMs, durationMs };
    return await runPipelined(run, context.load.cpus);
  }
  await createStreams(target.port, paths);
  const append = (ms: number): Promise<LoadResult> =>
    runWrk({
      port: target.port,
      ports,
      connections: streams,
      mode: 'append',
      args: [pathsFile, String(PAYLOAD_BYTES)],
      durationMs: ms,
      load: context.load,
    });
  await append(warmUpMs);
  return await append(durationMs);
}

function checksOf(rounds: Rounds): Check[] {
  const rate = (result: LoadResult): number => result.ratePerSecond;
  return [
    ...compare(rounds, 'millrace-cluster', 'reference-file', rate, (ratio) =>
      check('rate of three nodes / reference-file', ratio, 'x', { atLeast: 10 }),
    ),
    ...compare(rounds, 'millrace-cluster', 'etcd', rate, (ratio) =>
      check('rate of three nodes / etcd', ratio, 'x', { atLeast: 3 }),
    ),
  ];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const targets = selectTargets(context, NAME, [millraceCluster, referenceFile, etcd, nats] satisfies Target[]);
  if (targets.length === 0) return [];
  // wrk gives each of its threads, one per node, the same whole number of connections.
  const streams = context.smoke ? NODES * 2 : Math.ceil(500 / NODES) * NODES;
  const paths = Array.from({ length: streams }, (_, index) => streamPath(`cluster-${index}`));
  const load = { context, streams, paths, pathsFile: writePaths(context.start.dir, NAME, paths) };
  let leaders: number[] = [];
  const rounds = await alternate(context, targets, async (target) => {
    const running = await target.start(context.start);
    try {
      const result = await measure(load, running);
      if (target === millraceCluster) leaders = await leadersPerNode(running as RunningCluster);
      return result;
    } finally {
      await running.stop();
    }
  });
  return [
    {
      scenario: NAME,
      title:
        `three nodes, ${streams} streams, ${streams} appends of ${PAYLOAD_BYTES} B in flight, one per stream, ` +
        'spread evenly over the nodes',
      rateUnit: 'appends/s',
      rows: rowsOf(rounds),
      checks: checksOf(rounds),
      notes: [
        ...(leaders.length === 0 ? [] : [`groups led by the nodes of millrace-cluster: ${leaders.join(', ')}`]),
        'reference-file is one process and replicates nothing',
        `HTTP targets: wrk, a connection per stream; etcd: gRPC Put, nats: publish, each ${RIVAL_CONNECTIONS} connections ` +
          'that share the writers (a connection per writer makes both slower)',
      ],
    },
  ];
}

export const cluster: Scenario = {
  name: NAME,
  summary: 'three nodes: replicated appends, 500 streams, beside etcd and NATS',
  run,
};
