// Durable appends of many writers that share a few sessions, against the same writers over HTTP, a connection each, and
// against Redis with as many commands in flight.

import { withCpu } from '../cpu.ts';
import { runPipelined } from '../load/pipelined.ts';
import { redisBenchmarkMissing, runRedisBenchmark } from '../load/redis-benchmark.ts';
import { sessionStream } from '../load/session-append.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { pairsOf } from '../pair.ts';
import { check, type ScenarioReport } from '../report.ts';
import { type LoadResult, median } from '../stats.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { redis } from '../targets/redis.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'sessions';
const STREAMS = 500;
const SESSIONS = 6;
const PAYLOAD_BYTES = 256;
const OVER_HTTP = 'millrace';
const IN_SESSIONS = inSessions(OVER_HTTP);
const PIPELINE = 16;

function inSessions(target: string): string {
  return `${target}, sessions`;
}

interface Shape {
  readonly name: string;
  readonly target: Running;
  readonly measure: (durationMs: number) => Promise<LoadResult>;
}

function shapesOf(context: Context, target: Running, streams: number, pathsFile: string): readonly Shape[] {
  const { load } = context;
  const { port } = target;
  if (target.protocol === 'redis') {
    const connections = Math.ceil(streams / PIPELINE);
    const run = { port, connections, streams, payloadBytes: PAYLOAD_BYTES, pipeline: PIPELINE, cpus: load.cpus };
    return [{ name: 'redis', target, measure: (durationMs) => runRedisBenchmark({ ...run, durationMs }) }];
  }
  const args = [pathsFile, String(PAYLOAD_BYTES)];
  const shared = { protocol: 'session', ports: [port], connections: Math.min(SESSIONS, streams), streams } as const;
  return [
    {
      name: target.name,
      target,
      measure: (durationMs) => runWrk({ port, connections: streams, mode: 'append', args, durationMs, load }),
    },
    {
      name: inSessions(target.name),
      target,
      measure: (durationMs) =>
        runPipelined({ ...shared, payloadBytes: PAYLOAD_BYTES, warmUpMs: 0, durationMs }, load.cpus),
    },
  ];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const noRedis = redisBenchmarkMissing();
  const targets = selectTargets(context, NAME, [millrace, millraceBefore, ...(noRedis === undefined ? [redis] : [])]);
  if (noRedis !== undefined) context.notRun(`${NAME}: redis: ${noRedis}`);
  const streams = context.smoke ? 8 : STREAMS;
  return await withTargets(context, targets, async (running) => {
    const paths = Array.from({ length: streams }, (_, slot) => streamPath(sessionStream(slot)));
    const pathsFile = writePaths(context.start.dir, NAME, paths);
    for (const { port, protocol } of running) if (protocol === 'http') await createStreams(port, paths);
    const shapes = running.flatMap((target) => shapesOf(context, target, streams, pathsFile));
    for (const { measure } of shapes) await measure(context.warmUpMs);
    const rounds = await alternate(context, shapes, ({ target, measure }) =>
      withCpu(target, () => measure(context.durationMs)),
    );
    const rate = (result: LoadResult): number => result.ratePerSecond;
    const generatorUs = median((rounds.get(IN_SESSIONS) ?? []).map((result) => result.generatorUs ?? Number.NaN));
    return [
      {
        scenario: NAME,
        title: `${streams} streams, one append of ${PAYLOAD_BYTES} B in flight on each: a connection per writer, and ${SESSIONS} sessions`,
        rateUnit: 'appends/s',
        rows: rowsOf(rounds),
        checks: [
          ...compare(rounds, IN_SESSIONS, OVER_HTTP, rate, (ratio) =>
            check('rate in sessions / over HTTP', ratio, 'x', { atLeast: 4 }),
          ),
          ...compare(rounds, IN_SESSIONS, 'redis', rate, (ratio) =>
            check('rate in sessions / redis', ratio, 'x', { atLeast: 0.8 }),
          ),
        ],
        pairs: pairsOf(rounds),
        notes: [
          `redis has ${PIPELINE} commands in the pipeline of each connection`,
          `the generator for sessions is a Node process that takes ${generatorUs.toFixed(1)} us for an append; wrk and ` +
            'redis-benchmark are written in C',
        ],
      },
    ];
  });
}

export const sessions: Scenario = {
  name: NAME,
  summary: 'appends of 500 writers that share 6 sessions, against a connection each',
  run,
};
