// One stream, many live readers: every event must reach every reader, in order, soon.

import { withCpu } from '../cpu.ts';
import { runFanOut } from '../load/fan-out.ts';
import { pairsOf } from '../pair.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import type { Rounds } from '../stats.ts';
import { broadcaster } from '../targets/bare.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { referenceMemory } from '../targets/reference.ts';
import { streamPath } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'fan-out';
const EVENT_BYTES = 256;
const EVENTS_PER_SECOND = 20;
/** Live responses may end after about a minute by design; a run stays below, so a closed reader is a fault. */
const RUN_MS_MAX = 40_000;

interface Parameters {
  readonly readers: number;
  readonly events: number;
  readonly warmUpEvents: number;
}

function parametersOf(context: Context): Parameters {
  if (context.smoke) return { readers: 10, events: 4, warmUpEvents: 1 };
  // Twice the usual time: at 20 events/s a shorter run has too few events for a p99 over events.
  const runMs = Math.min(RUN_MS_MAX, 2 * context.durationMs);
  return { readers: 1000, events: Math.round((runMs / 1000) * EVENTS_PER_SECOND), warmUpEvents: EVENTS_PER_SECOND };
}

function checksOf(rounds: Rounds): Check[] {
  const lost = (rounds.get('millrace') ?? []).map((result) => result.failed + (result.failures === '' ? 0 : 1));
  return [
    ...(lost.length === 0
      ? []
      : [check('lost, repeated or disordered deliveries', Math.max(...lost), '', { atMost: 0 })]),
    ...compare(
      rounds,
      'millrace',
      'broadcaster',
      (result) => result.p99Ms,
      (ratio) => check('p99 / broadcaster p99', ratio, 'x', { atMost: 1.5 }),
    ),
  ];
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const { readers, events, warmUpEvents } = parametersOf(context);
  const targets = selectTargets(context, NAME, [millrace, millraceBefore, referenceMemory, broadcaster]);
  return await withTargets(context, targets, async (running) => {
    const rounds = await alternate(context, running, (target, round) =>
      withCpu(target, () =>
        runFanOut({
          port: target.port,
          path: streamPath(`fan-out-${round}`),
          readers,
          eventsPerSecond: EVENTS_PER_SECOND,
          eventBytes: EVENT_BYTES,
          events,
          warmUpEvents,
          cpus: context.load.cpus,
        }),
      ),
    );
    return [
      {
        scenario: NAME,
        title: `one stream, ${readers} SSE readers, ${EVENTS_PER_SECOND} events/s of ${EVENT_BYTES} B, ${events} events`,
        rateUnit: 'deliveries/s',
        rows: rowsOf(rounds),
        checks: checksOf(rounds),
        pairs: pairsOf(rounds),
        notes: [
          'latency: from the append sent to the event received, per event and reader',
          'processor time: per delivery, the opening of the readers included',
        ],
      },
    ];
  });
}

export const fanOut: Scenario = { name: NAME, summary: '1000 live readers of one stream', run };
