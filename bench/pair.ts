// Two nodes of Millrace in one run: how the build under test compares with the one before, and a setting with its absence.

import { type LoadResult, type Rounds, median, medianRatio } from './stats.ts';

export interface PairFigure {
  readonly what: string;
  readonly now: number;
  readonly before: number;
  /** now / before, of the medians over all rounds. */
  readonly ratioOfMedians: number;
  /** Median of now / before within each round, which a slow phase of the machine changes less. */
  readonly medianOfRatios: number;
}

export interface Pair {
  readonly now: string;
  readonly before: string;
  readonly figures: readonly PairFigure[];
}

const PAIRS = [
  ['millrace', 'millrace-before'],
  ['millrace, sessions', 'millrace-before, sessions'],
  ['millrace-token', 'millrace'],
  ['millrace-scoped', 'millrace'],
  ['millrace-jwt', 'millrace'],
  ['millrace-limits', 'millrace-scoped'],
  ['millrace-cluster', 'millrace-cluster-before'],
  ['millrace-cluster-tls', 'millrace-cluster'],
] as const;

/** Without a figure of the target, NaN: the line is left out. */
const FIGURES: readonly (readonly [what: string, pick: (result: LoadResult) => number])[] = [
  ['rate', (result) => result.ratePerSecond],
  ['p50 ms', (result) => result.p50Ms],
  ['p99 ms', (result) => result.p99Ms],
  ['CPU us per operation', (result) => result.cpuUs?.all ?? Number.NaN],
  ['  main thread', (result) => result.cpuUs?.main ?? Number.NaN],
  ['  shard threads', (result) => result.cpuUs?.shard ?? Number.NaN],
];

/** The pairs of which both sides ran. */
export function pairsOf(rounds: Rounds): Pair[] {
  return PAIRS.flatMap(([now, before]) => {
    const [ours, theirs] = [rounds.get(now), rounds.get(before)];
    return ours === undefined || theirs === undefined ? [] : [{ now, before, figures: figuresOf(ours, theirs) }];
  });
}

function figuresOf(ours: readonly LoadResult[], theirs: readonly LoadResult[]): PairFigure[] {
  return FIGURES.map(([what, pick]) => {
    const [now, before] = [median(ours.map(pick)), median(theirs.map(pick))];
    return { what, now, before, ratioOfMedians: now / before, medianOfRatios: medianRatio(ours, theirs, pick) };
  }).filter(({ ratioOfMedians }) => Number.isFinite(ratioOfMedians));
}

export function renderPair({ now, before, figures }: Pair): string {
  const cell = (value: number, digits: number): string => value.toFixed(digits).padStart(10);
  const lines = figures.map(
    (figure) =>
      `  ${figure.what.padEnd(22)}${cell(figure.now, figure.now >= 1000 ? 0 : 2)}` +
      `${cell(figure.before, figure.before >= 1000 ? 0 : 2)}` +
      `${cell(figure.ratioOfMedians, 3)}x${cell(figure.medianOfRatios, 3)}x`,
  );
  const head = `  ${`${now} / ${before}`.padEnd(42)}   medians      pairs`;
  return [head, ...lines].join('\n');
}
