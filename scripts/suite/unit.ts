/** One process of tests: its start, its bound, and what became of each file in it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import type { BegunFile, EndedTest, Spent } from './events.ts';

/** Files that run in one process, one after the other. */
export interface Unit {
  /** Name of its only file; of a shared process `pure/1` or `nodes/1`. */
  readonly name: string;
  /** Paths below the folder of tests. */
  readonly files: readonly string[];
  readonly timeoutMs: number;
  /** How many cores it keeps busy, on average, and how long: as it was measured. */
  readonly cores: number;
  readonly cpuSeconds: number;
  /** Nodes run in it. */
  readonly hasNodes: boolean;
  /** Its tests count on quick answers, so it and what runs beside it leave a part of the cores idle. */
  readonly isCalm: boolean;
  /**
   * A run after a failure: stack traces name lines of TypeScript, and errors of callbacks their test. In a first run each
   * thread of each node would read the maps of all that it loads, a tenth of what its start costs.
   */
  readonly isSecond: boolean;
}

/** `raft/log` of raft/log.test.js. */
export function nameOf(file: string): string {
  return file.replace(/\.test\.js$/, '');
}

export interface FileResult {
  passed: number;
  skipped: number;
  /** Titles of tests; of the process when it failed by itself. */
  readonly failed: string[];
  seconds: number;
  cpuSeconds: number;
}

export interface UnitResult {
  readonly unit: Unit;
  readonly files: ReadonlyMap<string, FileResult>;
  /** The file with all that was written, unless another program removed it. */
  readonly output: string;
  /** Why no test is to blame, when the process did not end well by itself. */
  readonly fault: string | undefined;
}

/** Node 20 has a WebSocket behind a flag, which the client library is tested with. */
const WEB_SOCKET: readonly string[] = process.versions.node.startsWith('20.') ? ['--experimental-websocket'] : [];

/**
 * Node parses all certificates of this file at each start, two thirds of what an empty process costs. Only one file asks
 * hosts that may need them: npm's registry.
 */
const CERTIFICATES = 'NODE_EXTRA_CA_CERTS';
const asksRegistry = (file: string): boolean => file.startsWith('packaging/node-versions');

/** Each file says why. */
const FEW_HOOKS = fileURLToPath(new URL('../../../scripts/suite/few-hooks.cjs', import.meta.url));
const OPTIMIZE_LATE = fileURLToPath(new URL('../../../scripts/suite/optimize-late.cjs', import.meta.url));
const EVENTS = new URL('./events.js', import.meta.url).href;
const SHARED = fileURLToPath(new URL('./shared-process.js', import.meta.url));

export interface Place {
  /** Where the compiled tests are. */
  readonly tests: string;
  /** For outputs. */
  readonly scratch: string;
}

/** Resolves also when tests fail. An abort of the signal kills the process and all that it started. */
export async function runUnit(unit: Unit, { tests, scratch }: Place, signal: AbortSignal): Promise<UnitResult> {
  mkdirSync(scratch, { recursive: true });
  const base = join(scratch, unit.name.replaceAll('/', '-'));
  const output = unused(`${base}.log`);
  const events = `${output}.events`;
  const paths = unit.files.map((file) => join(tests, file));
  const log = openSync(output, 'w');
  const startMs = performance.now();
  const child = spawn(
    process.execPath,
    [
      // Not by the environment, which servers under test would inherit.
      ...(unit.isSecond ? ['--enable-source-maps'] : ['--require', FEW_HOOKS]),
      ...(unit.hasNodes ? ['--require', OPTIMIZE_LATE] : []),
      ...WEB_SOCKET,
      ...['--test-reporter', 'spec', '--test-reporter-destination', 'stdout'],
      ...['--test-reporter', EVENTS, '--test-reporter-destination', events],
      ...(paths.length === 1 ? paths : [SHARED, ...paths]),
    ],
    // A process group of its own, so that a file that hangs takes its servers with it.
    { stdio: ['ignore', log, log], detached: true, env: environmentOf(unit) },
  );
  const ended = await endOf(child, unit.timeoutMs, signal);
  closeSync(log);
  const seconds = (performance.now() - startMs) / 1000;
  // Cleaners of /tmp exist. A process without results proves nothing.
  const lost = [output, events].find((path) => !existsSync(path));
  const files = resultsOf(unit, events, tests, seconds);
  rmSync(events, { force: true });
  const hasFailures = [...files.values()].some(({ failed }) => failed.length > 0);
  const isTold = ended === 'ended' || (ended === 'ended with exit code 1' && hasFailures);
  const fault = !isTold ? ended : lost === undefined ? undefined : `lost its results: ${lost} was removed while it ran`;
  return { unit, files, output, fault };
}

function environmentOf({ files }: Unit): NodeJS.ProcessEnv {
  if (files.some(asksRegistry)) return process.env;
  const { [CERTIFICATES]: _, ...env } = process.env;
  return env;
}

/** `ended`, or how else. */
async function endOf(child: ChildProcess, timeoutMs: number, signal: AbortSignal): Promise<string> {
  return await new Promise((resolve) => {
    let why: string | undefined;
    const kill = (reason: string): void => {
      why ??= reason;
      try {
        process.kill(-(child.pid ?? Number.NaN), 'SIGKILL');
      } catch {
        // Ended in this moment.
      }
    };
    const stop = (): void => kill('was stopped');
    const timer = setTimeout(() => kill(`took more than ${Math.round(timeoutMs / 1000)} s`), timeoutMs);
    signal.addEventListener('abort', stop);
    const end = (how: string): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      resolve(why ?? how);
    };
    child.once('error', (error) => end(error.message));
    child.once('exit', (code, by) =>
      end(code === 0 ? 'ended' : code === null ? `was killed by ${by}` : `ended with exit code ${code}`),
    );
  });
}

function resultsOf(unit: Unit, events: string, tests: string, seconds: number): Map<string, FileResult> {
  const results = new Map<string, FileResult>();
  for (const file of unit.files) results.set(file, { passed: 0, skipped: 0, failed: [], seconds: 0, cpuSeconds: 0 });
  let current = unit.files[0] ?? '';
  let cpuSeconds = 0;
  for (const line of linesOf(events)) {
    const event = JSON.parse(line) as BegunFile | EndedTest | Spent;
    if ('cpuSeconds' in event) {
      ({ cpuSeconds } = event);
      continue;
    }
    if ('path' in event) {
      current = unit.files.find((file) => event.path === join(tests, file)) ?? current;
      continue;
    }
    const result = results.get(current);
    if (result === undefined) continue;
    if (event.outcome === 'passed') result.passed++;
    else if (event.outcome === 'skipped') result.skipped++;
    else if (event.outcome === 'failed' && !event.isParent) result.failed.push(event.name);
    result.seconds += event.ms / 1000;
  }
  shareOut(results, seconds, cpuSeconds);
  return results;
}

/** A test's time does not include what loads its file, so files of a shared process share the rest by their times. */
function shareOut(results: ReadonlyMap<string, FileResult>, seconds: number, cpuSeconds: number): void {
  const sum = [...results.values()].reduce((total, result) => total + result.seconds, 0);
  for (const result of results.values()) {
    const part = results.size === 1 || sum === 0 ? 1 / results.size : result.seconds / sum;
    result.seconds = part * seconds;
    result.cpuSeconds = part * cpuSeconds;
  }
}

function linesOf(path: string): string[] {
  try {
    // A process that was killed leaves half a line.
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  } catch {
    return [];
  }
}

/** A second run of a file keeps the output of the first. */
function unused(path: string): string {
  for (let run = 1; ; run++) {
    const one = run === 1 ? path : path.replace(/\.log$/, `.${run}.log`);
    try {
      closeSync(openSync(one, 'wx'));
      return one;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    }
  }
}
