// The report of a chaos run, as Markdown that can be published: where it ran, what was done, what was checked, and every
// violation with the command that replays the run.
import { spawnSync } from 'node:child_process';
import { cpus, loadavg, release, totalmem } from 'node:os';
import process from 'node:process';
import { REPO_ROOT } from '../support/paths.ts';
import type { ChaosOptions, ChaosResult, Strike } from './chaos.ts';
import { type World, clock } from './world.ts';

const MIB = 1024 * 1024;

export interface Circumstances {
  readonly options: ChaosOptions;
  readonly begun: Date;
  readonly loadAtBegin: number;
}

export function circumstances(options: ChaosOptions): Circumstances {
  return { options, begun: new Date(), loadAtBegin: loadavg()[0] ?? 0 };
}

export function commandOf({ seed, nodes, minutes, only = [] }: ChaosOptions): string {
  const words = only.length === 0 ? '' : ` --only ${only.map((word) => `'${word}'`).join(',')}`;
  return `npm run chaos -- --minutes ${minutes ?? 0} --nodes ${nodes} --seed ${seed}${words}`;
}

function git(...args: string[]): string {
  return spawnSync('git', args, { cwd: REPO_ROOT, encoding: 'utf8' }).stdout?.trim() ?? '';
}

function machine(): string {
  const [first] = cpus();
  return `${cpus().length} × ${first?.model.trim()}, ${Math.round(totalmem() / MIB / 1024)} GiB, Linux ${release()}, Node ${process.version}`;
}

const mib = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  return row(heads) + row(heads.map((_, i) => (i === 0 ? '---' : '---:'))) + rows.map(row).join('');
}

export function reportOf({ options, begun, loadAtBegin }: Circumstances, result: ChaosResult): string {
  const { world, strikes, cores, kept, leftOut, memory } = result;
  const { appends, ...counts } = world.counts;
  const { violations } = world;
  const isDirty = git('status', '--porcelain', '--untracked-files=no') !== '';
  const statuses = [...world.load.statuses].sort(([a], [b]) => a - b);
  const facts: readonly (readonly [string, string])[] = [
    ['Commit', `\`${git('rev-parse', '--short=12', 'HEAD')}\`${isDirty ? ', with changes' : ''}`],
    ['Command', `\`${commandOf(options)}\``],
    ['Begun', begun.toISOString()],
    ['Lasted', `${clock(performance.now() - world.sinceMs)} (faults for ${clock(strikesEndMs(strikes))})`],
    ['Machine', machine()],
    ['Load average', `${loadAtBegin.toFixed(1)} at the begin, ${(loadavg()[0] ?? 0).toFixed(1)} at the end`],
    ['Cluster', `${options.nodes} nodes and a spare, ${world.cluster.groupIds.length} groups, \`--cores ${cores}\``],
    ['Resident at the end', memory.map(({ residentBytes: bytes }) => mib(bytes)).join(', ')],
    ['without mapped files', memory.map(({ anonymousBytes: bytes }) => mib(bytes)).join(', ')],
    ['The run itself', mib(process.memoryUsage.rss())],
  ];
  const work: readonly (readonly [string, number])[] = [
    ['appends acknowledged', appends.acknowledged],
    ['MiB of them', Math.round(counts.acknowledgedBytes / MIB)],
    ['bodies of 1 to 30 MB sent', counts.largeBodies],
    ['appends of unknown outcome that took effect', appends.unknownPresent],
    ['appends of unknown outcome that did not', appends.unknownAbsent],
    ['appends refused', appends.refused],
    ['streams created', counts.created],
    ['streams closed', counts.closed],
    ['forks made', counts.forked],
    ['streams and forks deleted', counts.deleted],
    ['streams kept until the end', kept],
    ['whole streams read back on a node', counts.contents],
    ['readers whose every answer was checked', counts.readers],
    ['MiB that they were shown', Math.round(appends.reads / MIB)],
    ['reads on the node that had just acknowledged', counts.ownReads],
  ];
  const verdict =
    violations.length === 0
      ? '**Passed**: no violation.'
      : `**Failed**: ${violations.length} violations${world.load.over.aborted ? '; the run was cut short' : ''}.`;
  return [
    `# Chaos, seed ${options.seed}\n\n${verdict}\n\n`,
    table(['', ''], facts),
    '\n## Faults\n\n',
    table(['Fault', 'Times', 'Longest silence of a group', 'Moments'], faultRows(strikes)),
    leftOut.map((reason) => `\nLeft out: ${reason}\n`).join(''),
    '\n## Work\n\n',
    table(
      ['What', 'Count'],
      work.map(([what, times]) => [what, count(times)]),
    ),
    `\nAnswers by status: ${statuses.map(([status, times]) => `${status}: ${count(times)}`).join(', ')}.\n`,
    '\n## Violations\n\n',
    violations.length === 0
      ? 'None.\n'
      : violations
          .map(({ atMs, during, text }) => `- ${clock(atMs)}, ${during}: ${text.replaceAll('\n', '\n  ')}\n`)
          .join(''),
    violations.length === 0
      ? ''
      : `\nTo replay: \`git checkout ${git('rev-parse', '--short=12', 'HEAD')} && ${commandOf(options)}\`. The seed repeats which faults strike, whom and how long, not the timing of processes.\n`,
  ].join('');
}

function strikesEndMs(strikes: readonly Strike[]): number {
  const last = strikes.at(-1);
  return last === undefined ? 0 : last.atMs + last.lastedMs;
}

function faultRows(strikes: readonly Strike[]): string[][] {
  const kinds = new Map<string, Strike[]>();
  for (const strike of strikes) {
    // Pairs have one row: there are too many of them, and no silence of theirs is due to one fault.
    const kind = strike.kind.includes(' + ') ? 'two at a time' : strike.kind;
    kinds.set(kind, [...(kinds.get(kind) ?? []), strike]);
  }
  return [...kinds].map(([kind, all]) => [
    kind,
    count(all.length),
    `${(Math.max(...all.map(({ silentMs }) => silentMs)) / 1000).toFixed(1)} s`,
    all.map(({ atMs, kind: which }) => (which === kind ? clock(atMs) : `${clock(atMs)} (${which})`)).join(' '),
  ]);
}

/** One line for each fault, while the run goes on. */
export function progressOf({ kind, atMs, lastedMs, silentMs }: Strike, world: World): string {
  const { appends, created } = world.counts;
  return (
    `${clock(atMs)} ${kind}: ${(lastedMs / 1000).toFixed(1)} s, longest silence of a group ${(silentMs / 1000).toFixed(1)} s; ` +
    `${count(appends.acknowledged)} appends judged, ${count(created)} streams, ${world.violations.length} violations, ` +
    `${Math.round(process.memoryUsage.rss() / MIB)} MiB\n`
  );
}
