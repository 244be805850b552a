/** A run of the suite: its files, the second chance of files that fail, and the verdict. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { Schedule } from './schedule.ts';
import { type FileResult, type Place, type Unit, type UnitResult, nameOf, runUnit } from './unit.ts';

export interface SuiteOptions {
  readonly place: Place;
  readonly units: readonly Unit[];
  readonly cores: number;
  /** Files that may fail once and pass when they run again, alone. */
  readonly flakyMax: number;
  readonly signal: AbortSignal;
  readonly write: (text: string) => void;
}

export interface Verdict {
  readonly isGood: boolean;
  readonly results: ReadonlyMap<string, FileResult>;
}

/** A file whose first run failed. */
interface FirstRun {
  readonly unit: Unit;
  readonly titles: readonly string[];
  readonly output: string;
}

/** More failures than this are not impatience: to run all these files again would only delay the answer. */
const REPEATED_MAX = 10;
const NAMED_AS_SLOW = 12;
/** The reporter's totals at the end of each process. */
const TOTALS = /^ℹ (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+\n/gm;

export async function runSuite(options: SuiteOptions): Promise<Verdict> {
  const suite = new Suite(options);
  await suite.runAll();
  await suite.repeatFailures();
  return suite.judge();
}

class Suite {
  readonly #options: SuiteOptions;
  readonly #results = new Map<string, FileResult>();
  readonly #failures: FirstRun[] = [];
  readonly #flaky: string[] = [];

  constructor(options: SuiteOptions) {
    this.#options = options;
  }

  async runAll(): Promise<void> {
    const { units, cores, signal } = this.#options;
    const schedule = new Schedule(units, cores);
    const running = new Set<Promise<void>>();
    const startAll = (): void => {
      for (let unit = schedule.next(); unit !== undefined; unit = schedule.next()) {
        const started = unit;
        const run = this.#runFirst(started).then((outcome) => {
          schedule.ended(started, outcome);
          running.delete(run);
        });
        running.add(run);
      }
    };
    startAll();
    while (running.size > 0) {
      await Promise.race(running);
      if (!signal.aborted) startAll();
    }
  }

  /** Returns what has to run because of the outcome. */
  async #runFirst(unit: Unit): Promise<{ readonly cpuSeconds: number; readonly more: readonly Unit[] }> {
    const { files, output, fault } = await this.#run(unit);
    const cpuSeconds = [...files.values()].reduce((sum, file) => sum + file.cpuSeconds, 0);
    if (fault !== undefined && unit.files.length > 1) {
      // No file is to blame yet.
      this.#flaky.push(`${unit.name} › the process ${fault} (${output})`);
      return { cpuSeconds, more: unit.files.map((file) => alone(unit, file)) };
    }
    const failed = [...files].filter(([, { failed: titles }]) => titles.length > 0);
    for (const [file, { failed: titles }] of failed)
      this.#failures.push({ unit: alone(unit, file), titles: [...titles], output });
    if (failed.length === 0) rmSync(output, { force: true });
    return { cpuSeconds, more: [] };
  }

  async #run(unit: Unit): Promise<UnitResult> {
    const { place, signal, write } = this.#options;
    const result = await runUnit(unit, place, signal);
    for (const [file, one] of result.files) this.#results.set(file, one);
    const output = existsSync(result.output) ? readFileSync(result.output, 'utf8') : '';
    write(`\n== ${unit.name}\n${output.replace(TOTALS, '')}`);
    if (result.fault !== undefined) {
      write(`${unit.name}: the process ${result.fault}\n`);
      if (unit.files.length === 1) for (const one of result.files.values()) one.failed.push(`(it ${result.fault})`);
    }
    return result;
  }

  async repeatFailures(): Promise<void> {
    const { signal, write } = this.#options;
    if (this.#failures.length > REPEATED_MAX) {
      write(`\n${this.#failures.length} files failed, so none is run again\n`);
      return;
    }
    for (const { unit, titles, output } of this.#failures) {
      if (signal.aborted) return;
      write(`\n-- again, alone: ${unit.name}\n`);
      const second = await this.#run(unit);
      if ([...second.files.values()].every(({ failed }) => failed.length === 0))
        this.#flaky.push(`${unit.name} › ${titles.join(', ')} (${output}, ${second.output})`);
    }
  }

  judge(): Verdict {
    const { flakyMax, signal, write } = this.#options;
    const results = [...this.#results.values()];
    const sum = (count: (result: FileResult) => number): number => results.reduce((all, one) => all + count(one), 0);
    const passed = sum((one) => one.passed);
    const failed = sum((one) => one.failed.length);
    const skipped = sum((one) => one.skipped);
    this.#nameSlowest();
    for (const [file, one] of this.#results)
      for (const title of one.failed) write(`failed: ${nameOf(file)} › ${title}\n`);
    for (const line of this.#flaky) write(`flaky: ${line}\n`);
    const isTooFlaky = this.#flaky.length > flakyMax;
    if (isTooFlaky) write(`flaky files: ${this.#flaky.length}, allowed: ${flakyMax}\n`);
    write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
    // A run that executed nothing, or not all, proves nothing.
    return { isGood: failed === 0 && passed > 0 && !isTooFlaky && !signal.aborted, results: this.#results };
  }

  #nameSlowest(): void {
    if (this.#results.size <= NAMED_AS_SLOW) return;
    const slowest = [...this.#results].sort(([, a], [, b]) => b.seconds - a.seconds).slice(0, NAMED_AS_SLOW);
    const named = slowest.map(([file, { seconds }]) => `${nameOf(file)} ${seconds.toFixed(0)} s`);
    this.#options.write(`\nslowest: ${named.join(', ')}\n`);
  }
}

function alone(unit: Unit, file: string): Unit {
  const cpuSeconds = unit.cpuSeconds / unit.files.length;
  return { ...unit, name: nameOf(file), files: [file], cpuSeconds, isSecond: true };
}
