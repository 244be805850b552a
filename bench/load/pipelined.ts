// The generator for etcd, NATS and sessions: many writers, each with one append in flight, over as many connections or fewer.
// etcd's own `benchmark` tool (not in Debian) works like this. The JSON gateway through wrk, the other way to load
// etcd, has a lower ceiling, because it calls etcd over gRPC in turn. One Node process makes more than 60,000
// appends/s, more than either accepts next to its three nodes on two cores.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { siblingModule } from '../paths.ts';
import { startChild } from '../processes.ts';
import type { LoadResult } from '../stats.ts';

export interface PipelinedRun {
  readonly protocol: 'etcd' | 'nats' | 'session';
  /** The nodes' ports; connections are opened to them in turn. */
  readonly ports: readonly number[];
  readonly connections: number;
  readonly streams: number;
  readonly payloadBytes: number;
  /** Before the clock runs, on the same connections. */
  readonly warmUpMs: number;
  readonly durationMs: number;
}

/** JSON writes NaN as null. */
type Output = Omit<LoadResult, 'bytesPerSecond'>;

export async function runPipelined(run: PipelinedRun, cpus: string | undefined): Promise<LoadResult> {
  const script = siblingModule(import.meta.url, 'pipelined-main');
  const child = startChild(process.execPath, [script, JSON.stringify(run)], cpus);
  // Not `exited`: the last line may still be in the pipe then.
  const [code] = (await once(child.process, 'close')) as [number | null];
  const output = child.output().trim();
  assert(code === 0, `the ${run.protocol} generator failed: ${output}`);
  return { ...(JSON.parse(output.slice(output.lastIndexOf('\n') + 1)) as Output), bytesPerSecond: Number.NaN };
}
