/** Which files a run takes, which of them share a process, and in which order they start. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Costs } from './costs.ts';
import { SharedFiles, type Sharing } from './sharing.ts';
import { type Unit, nameOf } from './unit.ts';

export interface Selection {
  /** Parts of paths; none: every file. */
  readonly words: readonly string[];
  /** Only what answers a developer soon. */
  readonly isQuick: boolean;
}

/** Some tests of the official suite count on answers within a few hundred milliseconds. */
const isCalm = (file: string): boolean => file.endsWith('official.test.js');

/** A file that takes longer gets a process of its own, so that the cores share the work evenly. */
const SHARED_SECONDS_MAX: Readonly<Record<Sharing, number>> = { pure: 4, nodes: 60 };
/**
 * One shared process in all. What it loads, its first node and its threads cost a second or two, so the fewer the better;
 * but the cores should share the work evenly, and a process that does not end well runs all of its files again.
 */
const SHARED_SECONDS: Readonly<Record<Sharing, number>> = { pure: 15, nodes: 120 };
/** `--quick`: of one file that is not pure. */
const QUICK_SECONDS_MAX = 1.5;
/** Costs are rounded. */
const MEASURED_SECONDS_MIN = 0.1;
/** Until a process is ended. Times differ that much between a quiet machine and a slow or busy one. */
const BUSY_FACTOR = 8;

/** In the order in which they start as soon as there is room: first calm units, because little fits beside them. */
export function planRun(tests: string, { words, isQuick }: Selection, costs: Costs, timeoutMs: number): Unit[] {
  const shared = new SharedFiles();
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.js'))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
    .sort((a, b) => costs.secondsOf(b) - costs.secondsOf(a) || (a < b ? -1 : 1));
  const sharing = new Map<string, Sharing>();
  for (const file of files) {
    const how = isCalm(file) ? undefined : shared.sharingOf(join(tests, file));
    if (how !== undefined && costs.secondsOf(file) <= SHARED_SECONDS_MAX[how]) sharing.set(file, how);
  }
  const wanted = files.filter(
    (file) => !isQuick || sharing.get(file) === 'pure' || (costs.secondsOf(file) <= QUICK_SECONDS_MAX && !isCalm(file)),
  );
  const unitOf = (name: string, members: readonly string[]): Unit => {
    const { seconds, cpuSeconds } = costs.sumOf(members);
    return {
      name,
      files: members,
      timeoutMs: Math.max(timeoutMs, seconds * 1000 * BUSY_FACTOR),
      cores: cpuSeconds / Math.max(seconds, MEASURED_SECONDS_MIN),
      cpuSeconds,
      hasNodes: members.some((file) => shared.hasNodes(join(tests, file))),
      isCalm: members.some(isCalm),
      isSecond: false,
    };
  };
  const together = (['pure', 'nodes'] as const).flatMap((how) => {
    const members = wanted.filter((file) => sharing.get(file) === how);
    return bins(members, costs, SHARED_SECONDS[how]).map((bin, index) =>
      unitOf(bin.length === 1 ? nameOf(bin[0] ?? '') : `${how}/${index + 1}`, bin),
    );
  });
  const alone = wanted.filter((file) => !sharing.has(file)).map((file) => unitOf(nameOf(file), [file]));
  const secondsOf = ({ files: members }: Unit): number => costs.sumOf(members).seconds;
  return [...together, ...alone].sort((a, b) => Number(b.isCalm) - Number(a.isCalm) || secondsOf(b) - secondsOf(a));
}

/** Files for as many processes as take about so many seconds each. */
function bins(files: readonly string[], costs: Costs, binSeconds: number): string[][] {
  const { seconds: total } = costs.sumOf(files);
  const count = Math.min(files.length, Math.floor(total / binSeconds) + 1);
  const all = Array.from({ length: count }, () => ({ seconds: 0, files: [] as string[] }));
  for (const file of files) {
    const least = all.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    least.seconds += costs.secondsOf(file);
    least.files.push(file);
  }
  return all.map((bin) => bin.files.sort());
}
