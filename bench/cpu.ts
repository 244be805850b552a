// Processor time that an operation costs a server. On a machine that other work shares it says more than the rate:
// waiting for a core costs time, but no processor time.

import { cpuMsOfThreads } from './processes.ts';
import type { LoadResult } from './stats.ts';

/** A process of a server under test. */
export interface Watched {
  readonly pid: number;
  /** How many threads besides the main one do its work. */
  readonly shardThreads: number;
}

/**
 * Processor time, user and system: of main threads, of shards (the busiest other threads), and of the helpers of V8 and
 * libuv.
 */
export interface CpuMs {
  readonly main: number;
  readonly shard: number;
  readonly others: number;
}

/** Measures the processes while `work` runs. */
export async function measureCpu<T>(
  processes: readonly Watched[],
  work: () => Promise<T>,
): Promise<[result: T, cpuMs: CpuMs]> {
  const before = processes.map(({ pid }) => cpuMsOfThreads(pid));
  const result = await work();
  const cpuMs = { main: 0, shard: 0, others: 0 };
  for (const [index, { pid, shardThreads }] of processes.entries()) {
    const used = [...cpuMsOfThreads(pid)].map(([thread, ms]) => ({
      isMain: thread === pid,
      ms: ms - (before[index]?.get(thread) ?? 0),
    }));
    const others = used.filter(({ isMain }) => !isMain).map(({ ms }) => ms);
    others.sort((a, b) => b - a);
    cpuMs.main += used.find(({ isMain }) => isMain)?.ms ?? Number.NaN;
    cpuMs.shard += sum(others.slice(0, shardThreads));
    cpuMs.others += sum(others.slice(shardThreads));
  }
  return [result, cpuMs];
}

/** The run with what each of its operations cost. */
export function withCost(result: LoadResult, { main, shard, others }: CpuMs): LoadResult {
  const perOperation = (ms: number): number => (1000 * ms) / result.requests;
  const cpuUs = { all: perOperation(main + shard + others), main: perOperation(main), shard: perOperation(shard) };
  return { ...result, cpuUs };
}

/** A run against a server whose processes may be watched. */
export async function withCpu(
  server: { readonly processes?: readonly Watched[] },
  work: () => Promise<LoadResult>,
): Promise<LoadResult> {
  if (server.processes === undefined) return await work();
  const [result, cpuMs] = await measureCpu(server.processes, work);
  return withCost(result, cpuMs);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
