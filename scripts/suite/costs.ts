/**
 * Seconds of each file in a whole run (`npm test -- --costs`): the order of later runs,
 * and the table in test/README.md.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { type FileResult, nameOf } from './unit.ts';

type Table = Readonly<Record<string, readonly [seconds: number, cpuSeconds: number]>>;

/** A file that was never measured starts before the cheap ones, and counts as one that never waits. */
const UNKNOWN = [1, 1] as const;
/** In the table folders that cost less are one row. */
const NAMED_CPU_SECONDS_MIN = 2.5;
const BEGIN = '<!-- costs: written by npm test -- --costs -->';
const END = '<!-- end of costs -->';

export class Costs {
  readonly #table: Table;

  constructor(table: Table = {}) {
    this.#table = table;
  }

  static read(path: string): Costs {
    return new Costs(existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Table) : {});
  }

  secondsOf(file: string): number {
    return this.#of(file)[0];
  }

  sumOf(files: readonly string[]): { readonly seconds: number; readonly cpuSeconds: number } {
    const sum = { seconds: 0, cpuSeconds: 0 };
    for (const file of files) {
      const [seconds, cpuSeconds] = this.#of(file);
      sum.seconds += seconds;
      sum.cpuSeconds += cpuSeconds;
    }
    return sum;
  }

  #of(file: string): readonly [seconds: number, cpuSeconds: number] {
    return this.#table[nameOf(file)] ?? UNKNOWN;
  }
}

export function writeCosts(path: string, results: ReadonlyMap<string, FileResult>): void {
  const rows = [...results]
    .map(([file, { seconds, cpuSeconds }]) => [nameOf(file), seconds, cpuSeconds] as const)
    .sort(([, a], [, b]) => b - a)
    .map(([name, seconds, cpuSeconds]) => `  ${JSON.stringify(name)}: [${rounded(seconds)}, ${rounded(cpuSeconds)}]`);
  writeFileSync(path, `{\n${rows.join(',\n')}\n}\n`);
}

/** Replaces the table between the marks of a document. */
export function writeCostTable(path: string, results: ReadonlyMap<string, FileResult>): void {
  const text = readFileSync(path, 'utf8');
  const [before, after] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${path} has no place for the table of costs`);
  writeFileSync(path, `${text.slice(0, before)}${BEGIN}\n\n${costTable(results)}\n${text.slice(after)}`);
}

interface Sum {
  files: number;
  tests: number;
  seconds: number;
  cpuSeconds: number;
}

const nothing = (): Sum => ({ files: 0, tests: 0, seconds: 0, cpuSeconds: 0 });

const sumOf = ({ passed, skipped, failed, seconds, cpuSeconds }: FileResult): Sum => ({
  files: 1,
  tests: passed + skipped + failed.length,
  seconds,
  cpuSeconds,
});

function add(to: Sum, more: Sum): void {
  to.files += more.files;
  to.tests += more.tests;
  to.seconds += more.seconds;
  to.cpuSeconds += more.cpuSeconds;
}

function costTable(results: ReadonlyMap<string, FileResult>): string {
  const folders = new Map<string, Sum>();
  const [all, others] = [nothing(), nothing()];
  for (const [file, result] of results) {
    const folder = file.split('/')[0] ?? '';
    const sum = folders.get(folder) ?? nothing();
    folders.set(folder, sum);
    add(sum, sumOf(result));
    add(all, sumOf(result));
  }
  const isNamed = (sum: Sum): boolean => sum.cpuSeconds >= NAMED_CPU_SECONDS_MIN;
  for (const sum of folders.values()) if (!isNamed(sum)) add(others, sum);
  const rows = [...folders].filter(([, sum]) => isNamed(sum)).sort(([, a], [, b]) => b.cpuSeconds - a.cpuSeconds);
  const line = (name: string, { files, tests, seconds, cpuSeconds }: Sum): string =>
    `| ${name} | ${files} | ${tests} | ${seconds.toFixed(0)} | ${cpuSeconds.toFixed(0)} |\n`;
  return [
    '| Folder | Files | Tests | Seconds | of processor |\n| --- | ---: | ---: | ---: | ---: |\n',
    ...rows.map(([folder, sum]) => line(`\`${folder}\``, sum)),
    ...(others.files > 0 ? [line('others', others)] : []),
    line('all', all),
  ].join('');
}

function rounded(seconds: number): string {
  return String(Math.round(seconds * 10) / 10);
}
