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

export interface Phase {
  readonly units: readonly Unit[];
  readonly isAlone: boolean;
}

/**
 * Some tests of the official suite count on answers within a few hundred milliseconds: they have the machine to
 * themselves.
 */
const isAlone = (file: string): boolean => file.endsWith('official.test.js');

/** A pure file that takes longer gets a process of its own, so that the cores share the work evenly. */
const SHARED_SECONDS_MAX = 4;
/** Bound of one shared process in all. */
const SHARED_SECONDS = 15;
/** `--quick`: of one file that is not pure. */
const QUICK_SECONDS_MAX = 1.5;
/** Times differ that much between a quiet machine and a busy one. */
const BUSY_FACTOR = 8;

export function planRun(tests: string, { words, isQuick }: Selection, costs: Costs, timeoutMs: number): Phase[] {
  const pure = new PureFiles();
  const files = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.js'))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
    .sort((a, b) => costs.secondsOf(b) - costs.secondsOf(a) || (a < b ? -1 : 1));
  const isShared = new Set(
    files.filter(
      (file) => costs.secondsOf(file) <= SHARED_SECONDS_MAX && !isAlone(file) && pure.has(join(tests, file)),
    ),
  );
  const wanted = files.filter(
    (file) => !isQuick || isShared.has(file) || (costs.secondsOf(file) <= QUICK_SECONDS_MAX && !isAlone(file)),
  );
  const single = (file: string): Unit => ({
    name: nameOf(file),
    files: [file],
    timeoutMs: Math.max(timeoutMs, costs.secondsOf(file) * 1000 * BUSY_FACTOR),
  });
  const shared = sharedUnits(
    wanted.filter((file) => isShared.has(file)),
    costs,
    timeoutMs,
  );
  const others = wanted.filter((file) => !isShared.has(file));
  const together = [...shared, ...others.filter((file) => !isAlone(file)).map(single)];
  const cost = (unit: Unit): number => unit.files.reduce((sum, file) => sum + costs.secondsOf(file), 0);
  return [
    { units: together.sort((a, b) => cost(b) - cost(a)), isAlone: false },
    { units: others.filter(isAlone).map(single), isAlone: true },
  ];
}

function sharedUnits(files: readonly string[], costs: Costs, timeoutMs: number): Unit[] {
  const total = files.reduce((sum, file) => sum + costs.secondsOf(file), 0);
  const count = Math.min(files.length, Math.floor(total / SHARED_SECONDS) + 1);
  const bins = Array.from({ length: count }, () => ({ seconds: 0, files: [] as string[] }));
  for (const file of files) {
    const least = bins.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    least.seconds += costs.secondsOf(file);
    least.files.push(file);
  }
  return bins.map((bin, index) => ({ name: `shared/${index + 1}`, files: bin.files.sort(), timeoutMs }));
}
