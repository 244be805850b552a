// One stream, many live readers: every event must reach every reader, in order, soon.

import { withCpu } from '../cpu.ts';
import type { FanOutProtocol } from '../load/fan-out-readers.ts';
import { runFanOut } from '../load/fan-out.ts';
import { pairsOf } from '../pair.ts';
import { check, type Check, type ScenarioReport } from '../report.ts';
import type { Rounds } from '../stats.ts';
import { broadcaster } from '../targets/bare.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { referenceMemory } from '../targets/reference.ts';
import type { Target } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const EVENT_BYTES = 256;
const EVENTS_PER_SECOND = 20;
/** Live responses may end after about a minute by design; a run stays below, so a closed reader is a fault. */
const RUN_MS_MAX = 40_000;

interface Shape {
  readonly name: string;
  readonly protocol: FanOutProtocol;
  readonly readers: number;
  /** The title's words for them. */
  readonly title: string;
  readonly targets: readonly Target[];
  /** The goal: the 99th percentile, as a multiple of the broadcaster's. */
  readonly p99AtMost: number;
}

interface Parameters {
  readonly readers: number;
  readonly events: number;
  readonly warmUpEvents: number;
}

function parametersOf(context: Context, readers: number): Parameters {
  if (context.smoke) return { readers: 10, events: 4, warmUpEvents: 1 };
  // Twice the usual time: at 20 events/s a shorter run has too few events for a p99 over events.
  const runMs = Math.min(RUN_MS_MAX, 2 * context.durationMs);
  return { readers, events: Math.round((runMs / 1000) * EVENTS_PER_SECOND), warmUpEvents: EVENTS_PER_SECOND };
}

function checksOf(rounds: Rounds, atMost: number): Check[] {
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
      (ratio) => check('p99 / broadcaster p99', ratio, 'x', { atMost }),
    ),
  ];
}

async function measure(context: Context, shape: Shape): Promise<ScenarioReport[]> {
  const { name, protocol } = shape;
  const { readers, events, warmUpEvents } = parametersOf(context, shape.readers);
  return await withTargets(context, selectTargets(context, name, shape.targets), async (running) => {
    const rounds = await alternate(context, running, (target, round) =>
      withCpu(target, () =>
        runFanOut({
          port: target.port,
          protocol,
          stream: `fan-out-${round}`,
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
        scenario: name,
        title: `one stream, ${readers} ${shape.title}, ${EVENTS_PER_SECOND} events/s of ${EVENT_BYTES} B, ${events} events`,
        rateUnit: 'deliveries/s',
        rows: rowsOf(rounds),
        checks: checksOf(rounds, shape.p99AtMost),
        pairs: pairsOf(rounds),
        notes: [
          'latency: from the append sent to the event received, per event and reader',
          'processor time: per delivery, the opening of the readers included',
        ],
      },
    ];
  });
}

function scenarioOf(shape: Shape, summary: string): Scenario {
  return { name: shape.name, summary, run: (context) => measure(context, shape) };
}

function subscribers(readers: number): Scenario {
  const shape: Shape = {
    name: `subscribers-${readers}`,
    protocol: 'session',
    readers,
    title: 'subscribers with a session each',
    targets: [millrace, millraceBefore, broadcaster],
    p99AtMost: 1.2,
  };
  return scenarioOf(shape, `${readers} live readers of one stream, in a session each`);
}

export const fanOut = scenarioOf(
  {
    name: 'fan-out',
    protocol: 'sse',
    readers: 1000,
    title: 'SSE readers',
    targets: [millrace, millraceBefore, referenceMemory, broadcaster],
    p99AtMost: 1.5,
  },
  '1000 live readers of one stream',
);
export const subscribers1000 = subscribers(1000);
export const subscribers5000 = subscribers(5000);
