/** The threads that check large JSON bodies: their own, so that cold reads and bodies never wait for each other. */
import { availableParallelism } from 'node:os';
import type { Runtime } from '../base/runtime.ts';
import type { CheckedBody, JsonTask } from '../gateway/json-bodies.ts';
import { threadEntry } from '../threads/entry.ts';
import { ThreadPool } from '../threads/thread-pool.ts';

/** JSON_POOLED_BYTES_MAX comes first for all bodies but the smallest of them. */
const QUEUE_MAX = 512;
/** A thread holds some ten MiB. */
const IDLE_MS = 10_000;

export type JsonPool = ThreadPool<JsonTask, CheckedBody>;

export function newJsonPool(
  runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>,
  onError: (error: unknown) => void,
): JsonPool {
  return new ThreadPool({
    title: 'the threads for large JSON bodies',
    entry: threadEntry('json'),
    task: 'checkJson',
    // Half of the machine: the rest belongs to shards and the main thread.
    threadsMax: Math.max(1, availableParallelism() >> 1),
    tasksPerThread: 1,
    queueMax: QUEUE_MAX,
    idleMs: IDLE_MS,
    runtime,
    onError,
  });
}
