// Does a million streams that lie on disk slow down the few that are busy? Two servers side by side, one with 1,000
// streams and one with 1,000,000, measured in turns.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpExchange } from '../load/exchange.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import { type LoadResult, type Rounds, medianRatio } from '../stats.ts';
import { millrace } from '../targets/millrace.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { alternate, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'scale';
const PREFIX = streamPath('scale-');
const PAYLOAD_BYTES = 256;
const CREATE_CONNECTIONS = 200;
/** Creates are idempotent, so a pass with refusals (503 under load) is simply repeated. */
const CREATE_PASSES_MAX = 3;
/** Streams asked for again after the creates: an answer 201 would mean that one was missing. */
const SAMPLE_STREAMS = 500;
const IDLE_MIB_MAX = 200;
const LOADED_MIB_MAX = 1024;

interface Contestant {
  readonly name: string;
  readonly target: Running;
  readonly streams: number;
}

async function createAll(context: Context, { target, streams }: Contestant): Promise<number> {
  let rate = 0;
  for (let pass = 0; pass < CREATE_PASSES_MAX; pass++) {
    const result = await runWrk({
      port: target.port,
      connections: Math.min(CREATE_CONNECTIONS, streams),
      mode: 'create',
      args: [PREFIX, String(streams)],
      durationMs: undefined,
      load: context.load,
    });
    rate ||= result.ratePerSecond;
    if (result.failed === 0) break;
    context.say(`creating ${streams} streams: ${result.failures}; once more`);
  }
  await assertCreated(target, streams);
  return rate;
}

async function assertCreated(target: Running, streams: number): Promise<void> {
  const exchange = await HttpExchange.open(target.port);
  const step = Math.max(1, Math.floor(streams / SAMPLE_STREAMS));
  for (let index = 0; index < streams; index += step) {
    const { status } = await exchange.request('PUT', `${PREFIX}${index}`, 'application/octet-stream');
    assert(status === 200, `stream ${index} of ${streams} was not there: a second create answered ${status}`);
  }
  exchange.close();
}

function checksOf(rounds: Rounds, contestants: readonly [Contestant, Contestant], what: string): Check[] {
  const [few, many] = contestants.map(({ name }) => rounds.get(name)) as [LoadResult[], LoadResult[]];
  return [
    check(
      `${what}: rate, many / few`,
      medianRatio(many, few, (r) => r.ratePerSecond),
      'x',
      { atLeast: 0.9 },
    ),
    check(
      `${what}: p99, few / many`,
      medianRatio(few, many, (r) => r.p99Ms),
      'x',
      { atLeast: 0.9 },
    ),
  ];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const [fewStreams, manyStreams, connections] = context.smoke ? [200, 2_000, 4] : [1_000, 1_000_000, 100];
  if (selectTargets(context, NAME, [millrace]).length === 0) return [];
  return await withTargets(context, [millrace, millrace], async (running) => {
    const [fewServer, manyServer] = running as [Running, Running];
    if (!context.smoke) await sleep(1_000);
    const idle = manyServer.memory();
    const few: Contestant = { name: `${fewStreams} streams`, target: fewServer, streams: fewStreams };
    const many: Contestant = { name: `${manyStreams} streams`, target: manyServer, streams: manyStreams };
    await createAll(context, few);
    const createRate = await createAll(context, many);
    context.say(`created ${manyStreams} streams at ${Math.round(createRate)}/s`);
    const created = manyServer.memory();

    // Own streams: as many as connections, spread evenly over all that exist.
    const own = (contestant: Contestant, durationMs: number): Promise<LoadResult> => {
      const step = Math.floor(contestant.streams / connections);
      const paths = Array.from({ length: connections }, (_, index) => `${PREFIX}${index * step}`);
      const file = writePaths(context.start.dir, `scale-${contestant.streams}`, paths);
      return append(context, contestant, connections, 'append', [file, String(PAYLOAD_BYTES)], durationMs);
    };
    const spread = (contestant: Contestant, durationMs: number): Promise<LoadResult> => {
      const args = [PREFIX, String(contestant.streams), String(PAYLOAD_BYTES)];
      return append(context, contestant, connections, 'spread', args, durationMs);
    };
    const reports: ScenarioReport[] = [];
    for (const [what, load] of [
      ['own stream per connection', own],
      ['spread over all streams', spread],
    ] as const) {
      for (const contestant of [few, many]) await load(contestant, context.warmUpMs);
      const rounds = await alternate(context, [few, many], (contestant) => load(contestant, context.durationMs));
      reports.push({
        scenario: NAME,
        title: `appends with few and with many existing streams, ${connections} connections, ${what}`,
        rateUnit: 'appends/s',
        rows: rowsOf(rounds),
        checks: checksOf(rounds, [few, many], what),
        notes: [],
      });
    }
    const after = manyServer.memory();
    const memoryChecks = [
      check('resident memory, fresh server', idle.residentMiB, ' MiB', { atMost: IDLE_MIB_MAX }),
      check(`resident memory, ${manyStreams} streams, after appends`, after.residentMiB, ' MiB', {
        atMost: LOADED_MIB_MAX,
      }),
    ];
    const last = reports.at(-1) as ScenarioReport;
    const notes = [
      `created ${manyStreams} streams at ${Math.round(createRate)}/s`,
      `resident MiB (of it anonymous): fresh ${mib(idle)}, created ${mib(created)}, after appends ${mib(after)}`,
    ];
    return [...reports.slice(0, -1), { ...last, checks: [...last.checks, ...memoryChecks], notes }];
  });
}

function mib({ residentMiB, anonymousMiB }: { residentMiB: number; anonymousMiB: number }): string {
  return `${residentMiB.toFixed(0)} (${anonymousMiB.toFixed(0)})`;
}

function append(
  context: Context,
  { target }: Contestant,
  connections: number,
  mode: 'append' | 'spread',
  args: readonly string[],
  durationMs: number,
): Promise<LoadResult> {
  return runWrk({ port: target.port, connections, mode, args, durationMs, load: context.load });
}

export const scale: Scenario = { name: NAME, summary: 'appends and memory with 1,000,000 streams', run };
