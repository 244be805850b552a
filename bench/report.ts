// The report of a run: for people as tables, for scripts as JSON of the same figures.

import type { Machine } from './machine.ts';
import { renderPair, type Pair } from './pair.ts';
import type { LoadResult } from './stats.ts';

/** A figure with the goal it is measured against. `pass` is undefined when a target needed for it did not run. */
export interface Check {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal: string;
  readonly pass: boolean;
}

export interface Row extends LoadResult {
  readonly target: string;
}

export interface ScenarioReport {
  readonly scenario: string;
  /** Description of the parameters. */
  readonly title: string;
  /** The unit of the rate column; "B" is shown in megabytes. */
  readonly rateUnit: string;
  readonly rows: readonly Row[];
  readonly checks: readonly Check[];
  readonly notes: readonly string[];
  /** Two nodes of Millrace: of two builds, with --before, or with a setting and without. */
  readonly pairs?: readonly Pair[];
}

export interface BenchReport {
  readonly machine: Machine;
  readonly startedAt: string;
  readonly arguments: readonly string[];
  readonly durability: Readonly<Record<string, string>>;
  readonly scenarios: readonly ScenarioReport[];
  readonly notRun: readonly string[];
}

/**
 * A ratio of ours to theirs with a goal: `atLeast` for rates, `atMost` for latencies. Empty when either did not run.
 */
export function check(
  name: string,
  value: number,
  unit: string,
  bound: { atLeast: number } | { atMost: number },
): Check {
  // A rival that answered nothing makes a ratio infinite: that is a failed measurement and no victory.
  const pass = Number.isFinite(value) && ('atLeast' in bound ? value >= bound.atLeast : value <= bound.atMost);
  const goal = 'atLeast' in bound ? `at least ${bound.atLeast}` : `at most ${bound.atMost}`;
  return { name, value, unit, goal, pass };
}

const formatRate = (value: number): string => Math.round(value).toLocaleString('en-US');

export function formatMs(value: number): string {
  if (!Number.isFinite(value)) return '-';
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function renderTable(header: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = header.map((cell, column) => Math.max(cell.length, ...lines.map((line) => line[column]?.length ?? 0)));
  const render = (line: readonly string[]): string =>
    line
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ');
  return [header, ...lines].map((line) => `  ${render(line)}`.trimEnd()).join('\n');
}

export function renderScenario(report: ScenarioReport): string {
  const bytes = report.rateUnit === 'MB/s';
  const lines = report.rows.map((row) => [
    row.target,
    bytes ? (row.bytesPerSecond / 1e6).toFixed(1) : formatRate(row.ratePerSecond),
    formatMs(row.p50Ms),
    formatMs(row.p99Ms),
    formatMs(row.p999Ms),
    formatMs(row.maxMs),
    String(row.failed),
    row.cpuUs === undefined ? '' : formatMs(row.cpuUs.all),
  ]);
  const header = ['target', report.rateUnit, 'p50 ms', 'p99 ms', 'p99.9 ms', 'max ms', 'failed', 'CPU us'];
  const failures = report.rows
    .filter((row) => row.failures !== '')
    .map((row) => `  ${row.target}: failures of one round: ${row.failures}`);
  const checks = report.checks.map(
    ({ name, value, unit, goal, pass }) => `  ${pass ? 'ok  ' : 'MISS'} ${name}: ${formatMs(value)}${unit} (${goal})`,
  );
  const notes = report.notes.map((note) => `  ${note}`);
  const table = lines.length === 0 ? [] : [renderTable(header, lines)];
  const pairs = (report.pairs ?? []).map(renderPair);
  return [`\n${report.scenario}: ${report.title}`, ...table, ...failures, ...checks, ...pairs, ...notes].join('\n');
}
