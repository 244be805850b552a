// How long a group takes no writes after something happened to its leader.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import type { TestCluster } from '../support/cluster.ts';
import { requestOnce } from '../support/raw-client.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { pause } from './load.ts';

const BUCKET = 'gap';
/** Pause after a refusal. */
const RETRY_MS = 5;
/** Among nodes that may be cut off an answer may never come: another write is sent this often. */
const PROBE_MS = 100;
const TEXT = { 'Content-Type': 'text/plain' } as const;

/** Creates a stream in each group; their paths, by group. */
export async function streamOfEachGroup(cluster: TestCluster): Promise<string[]> {
  const paths: string[] = [];
  const groups = cluster.groupIds.length;
  for (let i = 0; paths.filter((path) => path !== undefined).length < groups; i++) {
    paths[fnv1a64mod(BUCKET, `s${i}`, groups)] ??= `/${BUCKET}/s${i}`;
  }
  for (const path of paths) await cluster.client(1).create(path, TEXT);
  return paths;
}

/** One write after the other through a node until one is acknowledged; ms since `since`. */
export async function firstWrite(cluster: TestCluster, through: number, path: string, since: number): Promise<number> {
  for (;;) {
    const sentMs = performance.now();
    if (await isAcknowledged(cluster, through, path)) return performance.now() - since;
    assert(sentMs - since < PATIENCE_MS, `writes to ${path} did not resume within ${PATIENCE_MS} ms`);
    await pause(RETRY_MS);
  }
}

/** The same with new writes all the time, also while earlier ones wait for an answer. */
export async function firstOfManyWrites(
  cluster: TestCluster,
  through: number,
  path: string,
  since: number,
): Promise<number> {
  let doneMs = 0;
  const writes: Promise<void>[] = [];
  while (doneMs === 0) {
    assert(performance.now() - since < PATIENCE_MS, `writes to ${path} did not resume within ${PATIENCE_MS} ms`);
    const write = isAcknowledged(cluster, through, path).then((acknowledged) => {
      if (acknowledged && doneMs === 0) doneMs = performance.now();
    });
    writes.push(write);
    await Promise.race([write, pause(PROBE_MS)]);
    if (doneMs === 0) await pause(RETRY_MS);
  }
  await Promise.all(writes);
  return doneMs - since;
}

async function isAcknowledged(cluster: TestCluster, through: number, path: string): Promise<boolean> {
  const answer = await requestOnce(cluster.node(through).port, 'POST', path, TEXT, '.').catch(() => undefined);
  assert(
    answer === undefined || [204, 503].includes(answer.status),
    `a write to ${path} through node ${through}: ${answer?.status}`,
  );
  return answer?.status === 204;
}

/** The value that `part` of the values do not exceed, rounded. */
export function percentile(values: readonly number[], part: number): number {
  return Math.round([...values].sort((a, b) => a - b)[Math.ceil(part * values.length) - 1] ?? Number.NaN);
}
