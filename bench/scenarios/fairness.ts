// One tenant at full speed beside a quiet one: what the quiet one waits for, alone, beside the other, and beside the other
// held to a limit.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runPaced } from '../load/paced.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { removeFolder, temporaryFolder } from '../processes.ts';
import { check, type ScenarioReport } from '../report.ts';
import { type LoadResult, medianRatio } from '../stats.ts';
import { millrace } from '../targets/millrace.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { alternate, rowsOf, type Context, type Scenario } from './scenario.ts';

const NAME = 'fairness';
const PAYLOAD_BYTES = 256;
/** The quiet tenant sends so many over all of its connections. */
const QUIET_PER_SECOND = 100;
const QUIET_STREAMS = 4;
const LOUD_WRITERS = 64;
const LOUD_LIMIT = 500;
/** So much longer may the quiet tenant's p99 be than alone. */
const GOAL = 2;

type Neighbour = 'alone' | 'beside it' | 'beside it, limited';

const named = (bucket: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => streamPath(`${bucket}/s${index}`));

async function start(context: Context, folder: string, limits: string): Promise<Running> {
  const [file, config] = [join(folder, 'limits.toml'), join(folder, 'millrace.toml')];
  writeFileSync(file, limits);
  writeFileSync(config, `[http]\nlimits_file = "${file}"\n`);
  const running = await millrace.start({ ...context.start, config });
  await createStreams(running.port, [...named('quiet', QUIET_STREAMS), ...named('loud', LOUD_WRITERS)]);
  return running;
}

async function measure(context: Context, { port }: Running, neighbour: Neighbour): Promise<LoadResult> {
  const { durationMs, load } = context;
  const paths = named('quiet', QUIET_STREAMS);
  const quiet = async (): Promise<LoadResult> =>
    await runPaced({ port, paths, ratePerSecond: QUIET_PER_SECOND, bodyBytes: PAYLOAD_BYTES, durationMs });
  if (neighbour === 'alone') return await quiet();
  const args = [writePaths(context.start.dir, NAME, named('loud', LOUD_WRITERS)), String(PAYLOAD_BYTES)];
  const loud = { port, connections: LOUD_WRITERS, mode: 'append', args, load } as const;
  // It begins before the quiet one and ends after it.
  const all = runWrk({ ...loud, durationMs: durationMs + context.warmUpMs });
  await new Promise((resolve) => setTimeout(resolve, context.warmUpMs / 2));
  const [result] = await Promise.all([quiet(), all]);
  return result;
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing() ?? millrace.missing(context.start);
  if (missing !== undefined || context.only?.has(millrace.name) === false) {
    if (missing !== undefined) context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const folders = [1, 2].map(() => temporaryFolder(context.start.dir, NAME));
  const [free = '', bound = ''] = folders;
  const running: Running[] = [];
  try {
    running.push(await start(context, free, ''));
    running.push(await start(context, bound, `[buckets.loud]\nrequests_per_second = ${LOUD_LIMIT}\n`));
    const neighbours = (['alone', 'beside it', 'beside it, limited'] as const).map((name) => ({ name }));
    const rounds = await alternate(context, neighbours, async ({ name }) => {
      const server = running[name === 'beside it, limited' ? 1 : 0];
      if (server === undefined) throw new Error('the servers are not started');
      return await measure(context, server, name);
    });
    const [alone = [], beside = [], limited = []] = neighbours.map(({ name }) => rounds.get(name));
    const p99 = ({ p99Ms }: LoadResult): number => p99Ms;
    return [
      {
        scenario: NAME,
        title: `${QUIET_PER_SECOND} appends/s of a tenant, and ${LOUD_WRITERS} writers of another at full speed`,
        rateUnit: 'appends/s',
        rows: rowsOf(rounds),
        checks: [
          check('p99 beside it at full speed / alone', medianRatio(beside, alone, p99), 'x', { atMost: GOAL }),
          check(`p99 beside it at ${LOUD_LIMIT}/s / alone`, medianRatio(limited, alone, p99), 'x', { atMost: GOAL }),
        ],
        notes: ['the load generators share the processors with the server'],
      },
    ];
  } finally {
    for (const one of running) await one.stop();
    folders.forEach(removeFolder);
  }
}

export const fairness: Scenario = { name: NAME, summary: "a quiet tenant's p99 beside one at full speed", run };
