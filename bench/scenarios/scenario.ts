// The common parts of all scenarios: their context, and the alternation of targets that
// makes ratios fair on a noisy machine.

import type { LoadOptions } from '../load/wrk.ts';
import type { Check, Row, ScenarioReport } from '../report.ts';
import { type LoadResult, type Rounds, medianOfRounds, medianRatio } from '../stats.ts';
import type { Running, StartOptions, Target } from '../targets/target.ts';

export interface Context {
  /** Tiny parameters: proves that everything runs, measures nothing. */
  readonly smoke: boolean;
  /** Length of one run of one target in one round. */
  readonly durationMs: number;
  readonly warmUpMs: number;
  readonly rounds: number;
  /** Hot state of the backup scenarios; undefined: as each thinks fit. */
  readonly gib: number | undefined;
  readonly start: StartOptions;
  readonly load: LoadOptions;
  /** Names that the user wants; all when undefined. */
  readonly only: ReadonlySet<string> | undefined;
  /** A line of progress for people. */
  say(line: string): void;
  /** Something that was asked for and cannot run here. */
  notRun(line: string): void;
}

export interface Scenario {
  readonly name: string;
  /** One line for --help. */
  readonly summary: string;
  run(context: Context): Promise<ScenarioReport[]>;
}

/** The targets of a scenario that are wanted and can run; says once why others cannot. */
export function selectTargets(context: Context, scenario: string, targets: readonly Target[]): Target[] {
  return targets.filter((target) => {
    if (target.isBefore && context.start.before === undefined) return false;
    if (context.only === undefined ? target.isExtra : !context.only.has(target.name)) return false;
    const reason = target.missing(context.start);
    if (reason !== undefined) context.notRun(`${scenario}: ${target.name}: ${reason}`);
    return reason === undefined;
  });
}

/** Starts the targets one after the other, runs `body`, and always stops them. */
export async function withTargets<T>(
  context: Context,
  targets: readonly Target[],
  body: (running: readonly Running[]) => Promise<T>,
): Promise<T> {
  const running: Running[] = [];
  try {
    for (const target of targets) running.push(await target.start(context.start));
    return await body(running);
  } finally {
    for (const one of running) await one.stop();
  }
}

/**
 * Rounds of A B C, then B C A, ...: neighbours in time are compared, and no target is always the first after a pause.
 * `measure` gets the round too, for names that must be new each time.
 */
export async function alternate<T extends { readonly name: string }>(
  context: Context,
  contestants: readonly T[],
  measure: (contestant: T, round: number) => Promise<LoadResult>,
): Promise<Rounds> {
  const results = new Map<string, LoadResult[]>(contestants.map(({ name }) => [name, []]));
  for (let round = 0; round < context.rounds; round++) {
    for (let step = 0; step < contestants.length; step++) {
      const contestant = contestants[(step + round) % contestants.length] as T;
      const result = await measure(contestant, round);
      results.get(contestant.name)?.push(result);
      context.say(`round ${round + 1}/${context.rounds} ${contestant.name}`);
    }
  }
  return results;
}

export function rowsOf(rounds: Rounds): Row[] {
  return [...rounds].map(([target, results]) => ({ target, ...medianOfRounds(results) }));
}

/** The check of ours against a peer, or nothing when one of the two did not run. */
export function compare(
  rounds: Rounds,
  ours: string,
  theirs: string,
  pick: (result: LoadResult) => number,
  make: (ratio: number) => Check,
): Check[] {
  const [a, b] = [rounds.get(ours), rounds.get(theirs)];
  return a === undefined || b === undefined ? [] : [make(medianRatio(a, b, pick))];
}
