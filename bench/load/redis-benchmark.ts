// redis-benchmark as the generator for Redis: like wrk one C thread, closed loop, one command in flight per
// connection. It knows no duration, only a count, so a short calibration run gives the count for the time wanted.

import assert from 'node:assert/strict';
import { isInstalled, startChild } from '../processes.ts';
import type { LoadResult } from '../stats.ts';

/** Enough to see the rate, and gone in a moment: a tenth of a second at the rates Redis reaches. */
const CALIBRATION_REQUESTS = 5_000;

export function redisBenchmarkMissing(): string | undefined {
  return isInstalled('redis-benchmark') ? undefined : 'redis-benchmark is not installed: apt install redis-tools';
}

export interface RedisRun {
  readonly port: number;
  readonly connections: number;
  readonly streams: number;
  readonly payloadBytes: number;
  /** Commands in flight on a connection; 1 when left out. */
  readonly pipeline?: number;
  readonly durationMs: number;
  readonly cpus: string | undefined;
}

export async function runRedisBenchmark(run: RedisRun): Promise<LoadResult> {
  const calibration = await runCount(run, Math.max(CALIBRATION_REQUESTS >> 3, run.connections));
  const settled = await runCount(run, Math.max(1, Math.round(calibration.ratePerSecond * 0.2)));
  return await runCount(run, Math.max(run.connections, Math.round((settled.ratePerSecond * run.durationMs) / 1000)));
}

async function runCount(run: RedisRun, requests: number): Promise<LoadResult> {
  const flags = ['-h', '127.0.0.1', '-p', run.port, '-c', run.connections, '-n', requests, '-r', run.streams];
  if (run.pipeline !== undefined) flags.push('-P', run.pipeline);
  const command = ['XADD', 's:__rand_int__', '*', 'f', 'x'.repeat(run.payloadBytes)];
  const child = startChild('redis-benchmark', [...flags.map(String), '--precision', '3', ...command], run.cpus);
  const lines: string[] = [];
  child.process.stdout?.on('data', (chunk: Buffer) => lines.push(chunk.toString('latin1')));
  const code = await child.exited;
  const text = lines.join('');
  assert(code === 0, `redis-benchmark failed: ${child.output().trim()}`);
  return parseOutput(text, requests);
}

function parseOutput(text: string, requests: number): LoadResult {
  const seconds = Number(/completed in ([\d.]+) seconds/.exec(text)?.[1]);
  assert(seconds > 0, `redis-benchmark gave no result: ${text.slice(-500)}`);
  const steps = [...text.matchAll(/^([\d.]+)% <= ([\d.]+) milliseconds/gm)].map(([, percent, ms]) => ({
    percent: Number(percent),
    ms: Number(ms),
  }));
  const at = (percent: number): number => steps.find((step) => step.percent >= percent)?.ms ?? Number.NaN;
  // The last line of the summary table: avg min p50 p95 p99 max.
  const table = /^\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$/m.exec(text);
  assert(table !== null, 'redis-benchmark printed no latency summary');
  return {
    ratePerSecond: requests / seconds,
    bytesPerSecond: Number.NaN,
    p50Ms: Number(table[3]),
    p99Ms: Number(table[5]),
    p999Ms: at(99.9),
    maxMs: Number(table[6]),
    requests,
    failed: 0,
    failures: '',
  };
}
