/** Looks at a whole backup, several groups at once in threads of their own. Touches no cluster and no cold object. */
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Piscina } from 'piscina';
import type { Location } from '../format/location.ts';
import { type GroupEntry, type Manifest, readManifest } from '../format/manifest.ts';
import { VERIFIER_LOADED } from '../format/verify.ts';
import type { AgeKeys } from '../../encryption/age.ts';
import { threadEntry } from '../../threads/entry.ts';
import type { EnvironmentVariables } from '../../config/environment.ts';
import { Failure, Interrupted } from '../../nodes/failure.ts';

/** Each takes some 200 bytes for each stream of its group, besides its buffers. */
const THREADS_MAX = 8;
/** A tenth of a second on an idle machine. */
const START_MS = 5 * 60_000;
/** Tasks look at the flag after each piece that they read. One that waits for a store longer does not keep the tool. */
const STOP_MS = 5000;

export interface VerifiedBackup {
  readonly manifest: Manifest;
  /** The number of buckets in all groups together, each counted once. */
  readonly buckets: number;
}

/** Threads that look at groups, one each. */
export interface Verifiers {
  run(task: object): Promise<Answer>;
  end(): Promise<void>;
}

export type StartVerifiers = (threads: number, env: EnvironmentVariables) => Promise<Verifiers>;

interface VerifyingContext {
  readonly progress: { step(done: number, total: number, about: string): void };
  readonly signal: AbortSignal;
  /** The environment of the threads. */
  readonly env: EnvironmentVariables;
  /** Those of an encrypted backup. */
  readonly keys?: AgeKeys | undefined;
  readonly startVerifiers?: StartVerifiers | undefined;
}

/** The answer of a thread (workers/verify.ts). */
type Answer = { readonly fault: string } | { readonly bucketNames: readonly string[] };

export async function verifyBackup(
  location: Location,
  { progress, signal, env, keys, startVerifiers = startThreads }: VerifyingContext,
): Promise<VerifiedBackup> {
  const manifest = await readManifest(location);
  const threads = Math.max(1, Math.min(THREADS_MAX, availableParallelism(), manifest.groups.length));
  const verifiers = await startVerifiers(threads, env);
  const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const { raft_group_count: groupCount, groups } = manifest;
  let done = 0;
  const buckets = new Set<string>();
  const verify = async (one: GroupEntry): Promise<void> => {
    const answer = await verifiers.run({ location: location.text, keys, entry: one, groupCount, stop });
    if ('fault' in answer) throw new Failure(answer.fault);
    for (const name of answer.bucketNames) buckets.add(name);
    progress.step(++done, groupCount, `groups verified`);
  };
  let tasks: readonly Promise<void>[] = [];
  try {
    if (signal.aborted) throw new Interrupted();
    tasks = groups.map(verify);
    await Promise.race([Promise.all(tasks), interruptBy(signal)]);
  } finally {
    // A thread that is ended inside BLAKE3's native code ends the process
    // ("ThrowAsJavaScriptException"), so tasks end first.
    Atomics.store(stop, 0, 1);
    await Promise.race([Promise.allSettled(tasks), delay(STOP_MS, undefined, { ref: false })]);
    await verifiers.end();
  }
  return { manifest, buckets: buckets.size };
}

export async function startThreads(threads: number, env: EnvironmentVariables): Promise<Verifiers> {
  // Loaded here, because no other verb needs it.
  const { Piscina } = await import('piscina');
  const pool = new Piscina<unknown, Answer>({
    filename: threadEntry('verify').href,
    minThreads: threads,
    maxThreads: threads,
    atomics: 'disabled',
    env: { ...env },
  });
  const end = async (): Promise<void> => await pool.destroy();
  try {
    await allLoaded(pool);
  } catch (error) {
    await end();
    throw error;
  }
  return { run: async (task) => await pool.run(task, { name: 'verify' }), end };
}

async function interruptBy(signal: AbortSignal): Promise<never> {
  await once(signal, 'abort');
  throw new Interrupted();
}

/**
 * One that is ended before takes the whole process with it: Node.js 20 finds what piscina requires
 * half-done ("IsGraphAsync must be used on an instantiated module"). Errors of the pool are listened to for
 * good: the answers of tasks that an ending overtakes are some.
 */
async function allLoaded(pool: Piscina<unknown, Answer>): Promise<void> {
  // Threads without tasks do not keep this process.
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(new Failure('the threads that verify do not start')), START_MS);
      let count = 0;
      let reason = 'they end without an error';
      // Some may fail while others load.
      const look = (): void => {
        if (pool.threads.length === 0) reject(new Failure(`the threads that verify do not start: ${reason}`));
        else if (count >= pool.threads.length) resolve();
      };
      pool.on('message', (message: unknown) => {
        if (message !== VERIFIER_LOADED) return;
        count++;
        look();
      });
      pool.on('error', (error) => (reason = String(error)));
      pool.on('workerDestroy', () => setImmediate(look));
    });
  } finally {
    clearTimeout(timer);
  }
}
