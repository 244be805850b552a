// wrk as the load generator for HTTP. Its clock is kept here: wrk knows only whole seconds, so it is started for long
// and interrupted (SIGINT makes it print its result), which gives short smoke runs and creates of unknown length. On a
// busy machine its start may take longer than a short run, so the clock starts when wrk reports that it has begun.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sourceFile } from '../paths.ts';
import { isInstalled, startChild, type Child } from '../processes.ts';
import type { LoadResult } from '../stats.ts';

/** Slower answers count as failed. wrk keeps one counter per microsecond of this, so it is memory too (80 MB). */
const ANSWER_TIMEOUT_S = 10;
/** Upper bound of any run, in case the benchmark itself is stopped with SIGKILL. */
const RUN_SECONDS_MAX = 900;
/** wrk looks at its stop flag every 100 ms; longer than this after SIGINT and it hangs. */
const STOP_TIMEOUT_MS = 30_000;
const INTERRUPT_AGAIN_MS = 250;
/** A run without a single answer, for lack of processor time, is repeated with at least this duration. */
const ATTEMPTS_MAX = 3;
const NOTHING_MS = 1_000;

export const WRK_MISSING = 'wrk is not installed: apt install wrk';

export function wrkMissing(): string | undefined {
  return isInstalled('wrk') ? undefined : WRK_MISSING;
}

export interface LoadOptions {
  /** taskset list, when the run is pinned. */
  readonly cpus: string | undefined;
  /**
   * Threads of wrk. One makes 200,000 requests/s; more than a quarter of the cores would take them from the servers.
   */
  readonly threads: number;
}

export interface WrkRun {
  readonly port: number;
  /** Several nodes: each gets its own thread and an equal share of the connections; `port` is not used then. */
  readonly ports?: readonly number[];
  /** Sent with every append, where the server asks for one. */
  readonly token?: string | undefined;
  readonly connections: number;
  /** Arguments of wrk.lua, without the number of threads, which is decided here. */
  readonly mode: 'append' | 'read' | 'create' | 'spread';
  readonly args: readonly string[];
  /** Ends the run after this long; undefined: when the script reports that it is done ("create"). */
  readonly durationMs: number | undefined;
  readonly load: LoadOptions;
}

interface WrkOutput {
  readonly requests: number;
  readonly durationUs: number;
  readonly bytes: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly p999Us: number;
  readonly maxUs: number;
  readonly errors: Readonly<Record<'connect' | 'read' | 'write' | 'status' | 'timeout', number>>;
}

export async function runWrk(run: WrkRun): Promise<LoadResult> {
  let { durationMs } = run;
  for (let attempt = 1; ; attempt++) {
    const result = await runOnce(run, durationMs);
    if (durationMs === undefined || result.requests + result.failed > 0 || attempt === ATTEMPTS_MAX) return result;
    durationMs = Math.max(durationMs, NOTHING_MS);
  }
}

async function runOnce(run: WrkRun, durationMs: number | undefined): Promise<LoadResult> {
  const threads = run.ports?.length ?? Math.min(run.connections, run.load.threads);
  const script = sourceFile('bench', 'load', 'wrk.lua');
  const flags = [
    '-t',
    threads,
    '-c',
    run.connections,
    '-d',
    `${RUN_SECONDS_MAX}s`,
    '--timeout',
    `${ANSWER_TIMEOUT_S}s`,
  ];
  const url = `http://127.0.0.1:${run.port}/`;
  // A script can give a thread its address only in setup, which sees no arguments: hence the environment.
  const environment = [
    ...(run.ports === undefined ? [] : [`WRK_PORTS=${run.ports.join(' ')}`]),
    ...(run.token === undefined ? [] : [`WRK_TOKEN=${run.token}`]),
  ];
  const wrk = ['wrk', ...flags.map(String), '-s', script, url, '--', run.mode, String(threads), ...run.args];
  const child = startChild('env', [...environment, ...wrk], run.load.cpus);
  const begun = said(child, '@@begun', 1);
  const created = said(child, '@@created', threads);
  await Promise.race([durationMs === undefined ? created : begun, child.closed]);
  if (durationMs !== undefined) await elapsed(child, durationMs);
  await interrupt(child);
  return parseOutput(child.output());
}

/** wrk ignores SIGINT until its threads run, which a busy machine may delay beyond a short run: ask until it ends. */
async function interrupt(child: Child): Promise<void> {
  child.process.kill('SIGINT');
  const again = setInterval(() => child.process.kill('SIGINT'), INTERRUPT_AGAIN_MS);
  const giveUp = setTimeout(() => child.process.kill('SIGKILL'), STOP_TIMEOUT_MS);
  // Not its exit: what it wrote last may still be in the pipe then.
  await child.closed;
  clearInterval(again);
  clearTimeout(giveUp);
}

async function elapsed(child: Child, durationMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, durationMs)));
  await Promise.race([timeout, child.exited]);
  clearTimeout(timer);
}

/** Waits until the child has written `word` this many times. */
function said(child: Child, word: string, times: number): Promise<void> {
  let seen = 0;
  return new Promise((resolve) => {
    child.process.stdout?.on('data', (chunk: Buffer) => {
      seen += chunk.toString('latin1').split(word).length - 1;
      if (seen >= times) resolve();
    });
  });
}

function parseOutput(text: string): LoadResult {
  const json = /@@result (\{.*\})/.exec(text)?.[1];
  assert(json !== undefined, `wrk gave no result: ${text.trim()}`);
  const output = JSON.parse(json) as WrkOutput;
  const failures = Object.entries(output.errors).filter(([, count]) => count > 0);
  const failed = failures.reduce((sum, [, count]) => sum + count, 0);
  const seconds = output.durationUs / 1e6;
  // Only answers with a bad status are among the requests that wrk counts; socket errors are not.
  const good = output.requests - output.errors.status;
  return {
    ratePerSecond: good / seconds,
    bytesPerSecond: output.bytes / seconds,
    p50Ms: output.p50Us / 1000,
    p99Ms: output.p99Us / 1000,
    p999Ms: output.p999Us / 1000,
    maxMs: output.maxUs / 1000,
    requests: output.requests,
    failed,
    failures: failures.map(([kind, count]) => `${count} ${kind}`).join(', '),
  };
}

/** The list of paths for the modes that read one. */
export function writePaths(dir: string, name: string, paths: readonly string[]): string {
  assert(paths.length > 0, 'wrk needs at least one path');
  const file = join(dir, `${name}.paths`);
  writeFileSync(file, `${paths.join('\n')}\n`);
  return file;
}
