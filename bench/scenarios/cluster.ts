// Replicated appends: three nodes and the load on the same machine, against the single-process reference server and two
// replicated rivals. Only one target runs at a time, with fresh data, because three idle clusters are not idle enough.

import { measureCpu, withCost, type CpuMs } from '../cpu.ts';
import { NATS_STREAMS } from '../load/nats-subject.ts';
import { runPipelined } from '../load/pipelined.ts';
import { sessionStream } from '../load/session-append.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { pairsOf } from '../pair.ts';
import { startChild } from '../processes.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import { type LoadResult, type Rounds, median } from '../stats.ts';
import { etcd } from '../targets/etcd.ts';
import {
  commitsOfNodes,
  leadersPerNode,
  millraceCluster,
  millraceClusterBefore,
  millraceClusterTls,
} from '../targets/millrace-cluster.ts';
import { nats } from '../targets/nats.ts';
import { NODES } from '../targets/nodes.ts';
import { referenceFile } from '../targets/reference.ts';
import { streamPath, type Running, type RunningCluster, type Target } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'cluster';
const IN_SESSIONS = 'millrace-cluster, sessions';
const PAYLOAD_BYTES = 256;
/**
 * V8 compiles the code of three nodes for half a minute, on the cores that serve: an append over HTTP took 216 µs of CPU
 * after 3 s of load, and 109 after 24.
 */
const WARM_UPS = 16;
/** Two per node is where etcd and NATS were fastest when many writers share connections; more made both slower. */
const SHARED_CONNECTIONS = 6;

interface Load {
  readonly context: Context;
  readonly streams: number;
  readonly pathsFile: string;
  readonly paths: readonly string[];
}

/** The cost of the measured appends for all nodes together. */
interface Cost {
  readonly appends: number;
  readonly cpuMs: CpuMs;
  /** Durable commits, of all nodes. */
  readonly commits: number;
}

async function measureCost(cluster: RunningCluster, work: () => Promise<LoadResult>): Promise<[LoadResult, Cost]> {
  const commits = await commitsOfNodes(cluster);
  const [result, cpuMs] = await measureCpu(cluster.processes ?? [], work);
  return [
    withCost(result, cpuMs),
    { appends: result.requests, cpuMs, commits: (await commitsOfNodes(cluster)) - commits },
  ];
}

function describeCosts(name: string, costs: readonly Cost[]): string[] {
  if (costs.length === 0) return [];
  const micros = (of: (cpuMs: CpuMs) => number): string =>
    median(costs.map(({ cpuMs, appends }) => (1000 * of(cpuMs)) / appends)).toFixed(1);
  const perCommit = median(costs.map(({ appends, commits }) => (NODES * appends) / commits)).toFixed(0);
  return [
    `processor time of ${name} per append, all nodes: ${micros(({ main, shard, others }) => main + shard + others)} us ` +
      `(main threads ${micros(({ main }) => main)}, shards ${micros(({ shard }) => shard)}, ` +
      `others ${micros(({ others }) => others)}); ${perCommit} appends share a commit`,
  ];
}

function portsOf(target: Running): number[] {
  // A single server gets the same three load threads.
  return 'nodes' in target
    ? (target as RunningCluster).nodes.map(({ port }) => port)
    : Array.from({ length: NODES }, () => target.port);
}

/**
 * A rival is measured in two shapes: with a connection per writer, which is the workload of the other targets, and with
 * few connections that the writers share, which only its protocol allows and which is its best.
 */
async function measureRival(
  { context, streams }: Load,
  target: Running,
  protocol: 'etcd' | 'nats',
): Promise<readonly [own: LoadResult, shared: LoadResult]> {
  const [warmUpMs, durationMs] = [context.warmUpMs, context.durationMs];
  const shape = (connections: number): Promise<LoadResult> =>
    runPipelined(
      { protocol, ports: portsOf(target), connections, streams, payloadBytes: PAYLOAD_BYTES, warmUpMs, durationMs },
      context.load.cpus,
    );
  return [await shape(streams), await shape(Math.min(SHARED_CONNECTIONS, streams))];
}

/** The shared shape of Millrace: sessions, two to each node, whichever leads. */
async function measureSessions(
  { context, streams }: Load,
  cluster: RunningCluster,
  onCost: (cost: Cost) => void,
): Promise<LoadResult> {
  const paths = Array.from({ length: streams }, (_, slot) => streamPath(sessionStream(slot)));
  await createStreams(cluster.port, paths);
  const connections = Math.min(SHARED_CONNECTIONS, streams);
  const run = { protocol: 'session', ports: portsOf(cluster), connections, streams } as const;
  const append = (ms: number): Promise<LoadResult> =>
    runPipelined({ ...run, payloadBytes: PAYLOAD_BYTES, warmUpMs: 0, durationMs: ms }, context.load.cpus);
  await append(context.warmUpMs * WARM_UPS);
  const [result, cost] = await measureCost(cluster, () => append(context.durationMs));
  onCost(cost);
  return result;
}

/** `onCost` is told what the measured appends cost a cluster. */
async function measureHttp(
  { context, streams, pathsFile, paths }: Load,
  target: Running,
  onCost?: (cost: Cost) => void,
): Promise<LoadResult> {
  const ports = portsOf(target);
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
  await append(context.warmUpMs * WARM_UPS);
  const measured = (): Promise<LoadResult> => append(context.durationMs);
  let result: LoadResult;
  if (onCost === undefined) result = await measured();
  else {
    const [load, cost] = await measureCost(target as RunningCluster, measured);
    onCost(cost);
    result = load;
  }
  if (result.requests > 0) return result;
  return { ...result, failed: streams, failures: `no answer within ${context.durationMs} ms` };
}

function sharedName(rival: string): string {
  return `${rival}, shared`;
}

function checksOf(rounds: Rounds): Check[] {
  const rate = (result: LoadResult): number => result.ratePerSecond;
  return [
    ...compare(rounds, 'millrace-cluster', 'reference-file', rate, (ratio) =>
      check('rate of three nodes / reference-file', ratio, 'x', { atLeast: 10 }),
    ),
    ...[['etcd', 2.5] as const, [sharedName('etcd'), 1.5] as const].flatMap(([name, atLeast]) =>
      compare(rounds, 'millrace-cluster', name, rate, (ratio) =>
        check(`rate of three nodes / ${name}`, ratio, 'x', { atLeast }),
      ),
    ),
    ...compare(rounds, 'millrace-cluster-tls', 'millrace-cluster', rate, (ratio) =>
      check('rate of three nodes with TLS / without', ratio, 'x', { atLeast: 0.85 }),
    ),
    ...[['etcd', 3] as const, ['nats', 1.2] as const].flatMap(([name, atLeast]) =>
      compare(rounds, IN_SESSIONS, sharedName(name), rate, (ratio) =>
        check(`rate of three nodes in sessions / ${sharedName(name)}`, ratio, 'x', { atLeast }),
      ),
    ),
  ];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const targets = selectTargets(context, NAME, [
    millraceCluster,
    millraceClusterBefore,
    millraceClusterTls,
    referenceFile,
    etcd,
    nats,
  ] satisfies Target[]);
  if (targets.length === 0) return [];
  // wrk gives each of its threads, one per node, the same whole number of connections.
  const streams = context.smoke ? NODES * 2 : Math.ceil(500 / NODES) * NODES;
  const paths = Array.from({ length: streams }, (_, index) => streamPath(`cluster-${index}`));
  const load = { context, streams, paths, pathsFile: writePaths(context.start.dir, NAME, paths) };
  let leaders: number[] = [];
  const [costs, sessionCosts]: [Cost[], Cost[]] = [[], []];
  const shared = new Map<string, LoadResult[]>();
  const keep = (name: string, result: LoadResult): void => void shared.set(name, [...(shared.get(name) ?? []), result]);
  const own = await alternate(context, targets, async (target) => {
    // This target's first fsync would pay for the bytes that the one before left unwritten.
    await startChild('sync', ['-f', context.start.dir]).exited;
    const running = await target.start(context.start);
    try {
      if (running.protocol === 'etcd' || running.protocol === 'nats') {
        const [result, best] = await measureRival(load, running, running.protocol);
        keep(sharedName(target.name), best);
        return result;
      }
      if (!('nodes' in running)) return await measureHttp(load, running);
      const nodes = running as RunningCluster;
      const result = await measureHttp(load, nodes, (cost) => {
        if (target === millraceCluster) costs.push(cost);
      });
      if (target !== millraceCluster) return result;
      leaders = await leadersPerNode(nodes);
      keep(IN_SESSIONS, await measureSessions(load, nodes, (cost) => sessionCosts.push(cost)));
      return result;
    } finally {
      await running.stop();
    }
  });
  const rounds = new Map([...own, ...shared]);
  return [
    {
      scenario: NAME,
      title:
        `three nodes, ${streams} streams, ${streams} appends of ${PAYLOAD_BYTES} B in flight, one per stream, ` +
        'spread evenly over the nodes',
      rateUnit: 'appends/s',
      rows: rowsOf(rounds),
      checks: checksOf(rounds),
      pairs: pairsOf(rounds),
      notes: [
        ...(leaders.length === 0 ? [] : [`groups led by the nodes of millrace-cluster: ${leaders.join(', ')}`]),
        ...describeCosts('millrace-cluster', costs),
        ...describeCosts(IN_SESSIONS, sessionCosts),
        'reference-file is one process and replicates nothing',
        `a connection per stream (wrk for HTTP, own clients for gRPC Put and publish); shared: ${SHARED_CONNECTIONS} ` +
          'connections for all writers, the best shape of etcd and NATS and one that HTTP/1.1 does not have',
        `nats: the streams are subjects of ${NATS_STREAMS} replicated streams`,
      ],
    },
  ];
}

export const cluster: Scenario = {
  name: NAME,
  summary: 'three nodes: replicated appends, 500 streams, beside etcd and NATS',
  run,
};
