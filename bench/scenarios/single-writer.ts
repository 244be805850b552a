// Latency without company: one stream, one writer, one append at a time.

import { withCpu } from '../cpu.ts';
import { createStreams } from '../load/streams.ts';
import { runSingleWriter } from '../load/single-writer.ts';
import { pairsOf } from '../pair.ts';
import { check, type ScenarioReport } from '../report.ts';
import { median } from '../stats.ts';
import { bare } from '../targets/bare.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { redis } from '../targets/redis.ts';
import { referenceFile } from '../targets/reference.ts';
import { streamPath } from '../targets/target.ts';
import { alternate, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'single-writer';
const STREAM = 'single';
const PAYLOAD_BYTES = 256;

async function run(context: Context): Promise<ScenarioReport[]> {
  const targets = selectTargets(context, NAME, [millrace, millraceBefore, referenceFile, bare, redis]);
  return await withTargets(context, targets, async (running) => {
    for (const target of running) {
      if (target.protocol === 'http') await createStreams(target.port, [streamPath(STREAM)]);
      await runSingleWriter(target, STREAM, PAYLOAD_BYTES, context.warmUpMs);
    }
    const rounds = await alternate(context, running, (target) =>
      withCpu(target, () => runSingleWriter(target, STREAM, PAYLOAD_BYTES, context.durationMs)),
    );
    const ours = rounds.get('millrace');
    return [
      {
        scenario: NAME,
        title: `one stream, one writer, ${PAYLOAD_BYTES} B, one append at a time`,
        rateUnit: 'appends/s',
        rows: rowsOf(rounds),
        checks: ours === undefined ? [] : [check('p50', median(ours.map((r) => r.p50Ms)), ' ms', { atMost: 1 })],
        pairs: pairsOf(rounds),
        notes: [],
      },
    ];
  });
}

export const singleWriter: Scenario = { name: NAME, summary: 'latency of one writer on one stream', run };
