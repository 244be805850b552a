// Three nodes on a disk that takes 20 ms for each sync, as volumes of clouds may: how many syncs a writer waits for.
// strace delays the calls, of the rival too.

import { createStreams } from '../load/streams.ts';
import { runPipelined } from '../load/pipelined.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { pairsOf } from '../pair.ts';
import { isInstalled } from '../processes.ts';
import { check, type ScenarioReport } from '../report.ts';
import { type LoadResult, median } from '../stats.ts';
import { etcd } from '../targets/etcd.ts';
import { millraceCluster, millraceClusterBefore } from '../targets/millrace-cluster.ts';
import { NODES } from '../targets/nodes.ts';
import { streamPath, type RunningCluster } from '../targets/target.ts';
import { alternate, rowsOf, selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'slow-disk';
const PAYLOAD_BYTES = 256;
const SYNC_MS = 20;
const WRITERS = [1, 60];
/** Syncs that the median append waits for. */
const GOALS = new Map([
  [1, 1.5],
  [60, 3],
]);
const INJECT = `inject=fdatasync:delay_exit=${1000 * SYNC_MS}`;
const STRACE: readonly [string, ...string[]] = [
  'strace',
  '-D',
  '-f',
  '-qq',
  '--seccomp-bpf',
  '-o',
  '/dev/null',
  '-e',
  'trace=fdatasync',
  '-e',
  INJECT,
];

async function measure(context: Context, cluster: RunningCluster, writers: number): Promise<LoadResult> {
  const nodes = cluster.nodes.map(({ port }) => port);
  const ports = nodes.slice(0, writers);
  const [warmUpMs, durationMs] = [context.warmUpMs, context.durationMs];
  const { protocol } = cluster;
  if (protocol === 'etcd') {
    const shape = { protocol, ports, connections: writers, streams: writers, payloadBytes: PAYLOAD_BYTES } as const;
    return await runPipelined({ ...shape, warmUpMs, durationMs }, context.load.cpus);
  }
  const paths = Array.from({ length: writers }, (_, index) => streamPath(`slow-${writers}-${index}`));
  await createStreams(cluster.port, paths);
  const args = [writePaths(context.start.dir, `${NAME}-${writers}`, paths), String(PAYLOAD_BYTES)];
  const append = (ms: number): Promise<LoadResult> =>
    runWrk({
      port: cluster.port,
      ports,
      connections: writers,
      mode: 'append',
      args,
      durationMs: ms,
      load: context.load,
    });
  await append(warmUpMs);
  return await append(durationMs);
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing() ?? (isInstalled('strace') ? undefined : 'strace is not installed: apt install strace');
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const targets = selectTargets(context, NAME, [millraceCluster, millraceClusterBefore, etcd]);
  const reports: ScenarioReport[] = [];
  for (const writers of context.smoke ? WRITERS.slice(0, 1) : WRITERS) {
    const rounds = await alternate(context, targets, async (target) => {
      const running = (await target.start({ ...context.start, wrapper: STRACE })) as RunningCluster;
      try {
        return await measure(context, running, writers);
      } finally {
        await running.stop();
      }
    });
    const ours = rounds.get(millraceCluster.name);
    const syncs = ours && median(ours.map(({ p50Ms }) => p50Ms)) / SYNC_MS;
    const atMost = GOALS.get(writers) ?? Infinity;
    reports.push({
      scenario: NAME,
      title: `${NODES} nodes, a sync takes ${SYNC_MS} ms, writers: ${writers}, ${PAYLOAD_BYTES} B`,
      rateUnit: 'appends/s',
      rows: rowsOf(rounds),
      checks: syncs === undefined ? [] : [check('p50, in syncs', syncs, 'x', { atMost })],
      pairs: pairsOf(rounds),
      notes: ['strace delays every fdatasync of the nodes, those of checkpoints too'],
    });
  }
  return reports;
}

export const slowDisk: Scenario = { name: NAME, summary: 'three nodes whose syncs take 20 ms, beside etcd', run };
