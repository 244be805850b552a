// The cold tier's cost for appends: the same load on a server without one, on one with a directory, and on one with
// an S3 server on the same machine. Everything is flushed while appends go on; between measurements the stores catch
// up.

import { Ceph, cephMissing } from '../../test/support/ceph.ts';
import { createStreams } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { check, type ScenarioReport } from '../report.ts';
import type { LoadResult } from '../stats.ts';
import { type ColdNode, startColdNode } from '../targets/cold-node.ts';
import { streamPath } from '../targets/target.ts';
import { alternate, compare, rowsOf, type Context, type Scenario } from './scenario.ts';

const NAME = 'cold-appends';
const BUCKET = 'bench';
const OFF = 'cold tier off';
const PAYLOAD_BYTES = 256;
/** Several flush intervals (1 s). */
const DURATION_MS_MIN = 10_000;
const GOAL = 0.85;

interface Contestant {
  readonly name: string;
  readonly node: ColdNode;
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const wrk = wrkMissing();
  if (wrk !== undefined) {
    context.notRun(`${NAME}: ${wrk}`);
    return [];
  }
  const noCeph = cephMissing();
  if (noCeph !== undefined) context.notRun(`${NAME}: S3: ${noCeph}`);
  const ceph = noCeph === undefined ? await Ceph.start({ bucket: BUCKET }) : undefined;
  const contestants: Contestant[] = [];
  try {
    const start = async (name: string, toml: string): Promise<void> => {
      contestants.push({ name, node: await startColdNode(context.start, toml) });
    };
    await start(OFF, '');
    await start('directory', '[storage.cold]\nbackend = "dir"\n');
    if (ceph !== undefined) await start('S3 (Ceph)', ceph.coldToml(BUCKET));
    return [await measure(context, contestants)];
  } finally {
    for (const { node } of contestants) await node.stop();
    await ceph?.stop();
  }
}

async function measure(context: Context, contestants: readonly Contestant[]): Promise<ScenarioReport> {
  const streams = context.smoke ? 4 : 500;
  const paths = Array.from({ length: streams }, (_, i) => streamPath(`cold-append-${i}`));
  const file = writePaths(context.start.dir, NAME, paths);
  const durationMs = context.smoke ? context.durationMs : Math.max(DURATION_MS_MIN, context.durationMs);
  const load = async ({ name, node }: Contestant, ms: number): Promise<LoadResult> => {
    const result = await runWrk({
      port: node.port,
      connections: streams,
      mode: 'append',
      args: [file, String(PAYLOAD_BYTES)],
      durationMs: ms,
      load: context.load,
    });
    // The rest of one target's flushes must not slow down the next one.
    if (name !== OFF) await node.allCold();
    return result;
  };
  for (const contestant of contestants) {
    await createStreams(contestant.node.port, paths);
    await load(contestant, context.warmUpMs);
  }
  const cpu = new Map(contestants.map(({ name }) => [name, 0]));
  const rounds = await alternate(context, contestants, async (contestant) => {
    const before = contestant.node.cpuMs();
    const result = await load(contestant, durationMs);
    cpu.set(contestant.name, (cpu.get(contestant.name) as number) + contestant.node.cpuMs() - before);
    return result;
  });
  const notes: string[] = [];
  for (const { name, node } of contestants) {
    const requests = (rounds.get(name) ?? []).reduce((sum, result) => sum + result.requests, 0);
    notes.push(
      `${name}: ${((1000 * (cpu.get(name) as number)) / requests).toFixed(1)} µs of processor time per append`,
    );
    if (name === OFF) continue;
    const { cold_bytes: bytes = 0, cold_flush_uploads: uploads = 0 } = await node.metrics();
    const refusals = (await node.metrics())['cold_backpressure_events'] ?? 0;
    notes.push(`${name}: ${Math.round(bytes / 1e6)} MB went to the store in ${uploads} objects, ${refusals} refusals`);
  }
  return {
    scenario: NAME,
    title: `${streams} streams, one append of ${PAYLOAD_BYTES} B in flight on each, ${durationMs / 1000} s`,
    rateUnit: 'appends/s',
    rows: rowsOf(rounds),
    checks: contestants.slice(1).flatMap(({ name }) =>
      compare(
        rounds,
        name,
        OFF,
        (result) => result.ratePerSecond,
        (ratio) => check(`rate with ${name} / ${OFF}`, ratio, 'x', { atLeast: GOAL }),
      ),
    ),
    notes,
  };
}

export const coldAppends: Scenario = { name: NAME, summary: 'append rate with the cold tier on and off', run };
