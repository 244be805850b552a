/** Which files a run takes, which of them share a process, and in which order they start. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Costs } from './costs.ts';
import { PureFiles } from './pure.ts';
import { type Unit, nameOf } from './unit.ts';

export interface Selection {
  /** Parts of paths; none: every file. */
  readonly words: readonly string[];
  /** Only what answers a developer soon. */
  readonly isQuick: boolean;
}

/** Some tests of the official suite count on answers within a few hundred milliseconds. */
const isCalm = (file: string): boolean => file.endsWith('official.test.js');

/** A pure file that takes longer gets a process of its own, so that the cores share the work evenly. */
const SHARED_SECONDS_MAX = 4;
/** Bound of one shared process in all. */
const SHARED_SECONDS = 15;
/** `--quick`: of one file that is not pure. */
const QUICK_SECONDS_MAX = 1.5;
/** Costs are rounded. */
const MEASURED_SECONDS_MIN = 0.1;
/** Times differ that much between a quiet machine and a busy one. */
const BUSY_FACTOR = 8;

/** In the order in which they start as soon as there is room: first calm units, because little fits beside them. */
export function planRun(tests: string, { words, isQuick }: Selection, costs: Costs, timeoutMs: number): Unit[] {
  const pure = new PureFiles();
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.js'))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
    .sort((a, b) => costs.secondsOf(b) - costs.secondsOf(a) || (a < b ? -1 : 1));
  const isShared = new Set(
    files.filter((file) => costs.secondsOf(file) <= SHARED_SECONDS_MAX && !isCalm(file) && pure.has(join(tests, file))),
  );
  const wanted = files.filter(
    (file) => !isQuick || isShared.has(file) || (costs.secondsOf(file) <= QUICK_SECONDS_MAX && !isCalm(file)),
  );
  const unitOf = (name: string, members: readonly string[]): Unit => {
    const { seconds, cpuSeconds } = costs.sumOf(members);
    const measuredMs = members.length === 1 ? seconds * 1000 * BUSY_FACTOR : 0;
    return {
      name,
      files: members,
      timeoutMs: Math.max(timeoutMs, measuredMs),
      cores: cpuSeconds / Math.max(seconds, MEASURED_SECONDS_MIN),
      isCalm: members.some(isCalm),
    };
  };
  const shared = sharedFiles(
    wanted.filter((file) => isShared.has(file)),
    costs,
  ).map((members, index) => unitOf(`shared/${index + 1}`, members));
  const others = wanted.filter((file) => !isShared.has(file)).map((file) => unitOf(nameOf(file), [file]));
  const secondsOf = ({ files: members }: Unit): number => costs.sumOf(members).seconds;
  return [...shared, ...others].sort((a, b) => Number(b.isCalm) - Number(a.isCalm) || secondsOf(b) - secondsOf(a));
}

function sharedFiles(files: readonly string[], costs: Costs): string[][] {
  const { seconds: total } = costs.sumOf(files);
  const count = Math.min(files.length, Math.floor(total / SHARED_SECONDS) + 1);
  const bins = Array.from({ length: count }, () => ({ seconds: 0, files: [] as string[] }));
  for (const file of files) {
    const least = bins.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    least.seconds += costs.secondsOf(file);
    least.files.push(file);
  }
  return bins.map((bin) => bin.files.sort());
}
