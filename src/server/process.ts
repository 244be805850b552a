/** Settings of the process, made before anything else, and how it ends: by a bug, a failed shard, or a signal. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { ConfigError } from '../config/error.ts';
import type { Logger } from '../logging/logger.ts';
import type { Closed } from '../threads/thread-pool.ts';
import type { LaunchedNode, NodeFailure } from './launch.ts';

export const EXIT_FAILURE = 1;
export const EXIT_CONFIG = 2;
/** A node that has failed closes itself. Its other shards write a checkpoint first, on a disk that may hang. */
const CLOSE_MS = 5_000;
const SAME_SIGNAL_MS = 1000;
/** A server that its npx left behind holds ports and data directory so much longer at most. */
const PARENT_LOOK_MS = 500;

/** Before the first thread is started. */
export function prepareProcess(): void {
  // For everything that this process and its threads create: folders 0700, files 0600.
  process.umask(0o077);
  // The reader of the greeting is gone, or the disk that it goes to is full: no reason not to serve.
  process.stdout.on('error', () => undefined);
  // Without a listener the signal would end the process, and what it reloads does not exist yet.
  process.on('SIGHUP', () => undefined);
}

/** Unhandled rejections come here too. The node does not continue on doubtful state. */
export function endOnBug(log: Logger): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a bug; the process ends, acknowledged data is on disk');
    process.exit(EXIT_FAILURE);
  });
}

/**
 * The process ends when the node has closed itself (endWhenFailed): to end the threads of its other shards within a call
 * of LMDB would end it by SIGABRT.
 */
export function endOnFailure(log: Logger): (error: NodeFailure) => void {
  return ({ cause }) => {
    // A sentence needs no stack.
    const err = cause instanceof ConfigError ? { message: cause.message } : cause;
    log.fatal({ err }, 'a shard failed; the process ends, acknowledged data is on disk');
    process.exitCode = EXIT_FAILURE;
    setTimeout(endAtOnce, CLOSE_MS);
  };
}

export function endWhenFailed({ failed }: Pick<LaunchedNode, 'failed'>): void {
  void failed.then(() => process.exit());
}

/** process.exit() waits for threads; one in a call of the system, as to a hanging file system, ends with that call. */
function endAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** First signal: stop cleanly. Another one, later: at once. Ctrl-C under npm arrives twice in the same moment. */
export function onSignal(log: Logger, stop: () => Promise<Closed>): void {
  let stoppingSinceMs = Infinity;
  const begin = (): void => {
    if (stoppingSinceMs !== Infinity) return;
    stoppingSinceMs = performance.now();
    stop().then(
      (threads) => (threads === 'ended' ? process.exit() : endAtOnce()),
      (error: unknown) => {
        process.stderr.write(`millrace: stop failed: ${String(error)}\n`);
        process.exit(EXIT_FAILURE);
      },
    );
  };
  const handle = (): void => (performance.now() - stoppingSinceMs > SAME_SIGNAL_MS ? endAtOnce() : begin());
  process.on('SIGTERM', handle);
  process.on('SIGINT', handle);
  whenNpxEnds(log, begin);
}

/** npx and its shell die of a signal and pass none on, and no other process would end the server. */
function whenNpxEnds(log: Logger, stop: () => void): void {
  const parent = process.ppid;
  if (process.env['npm_command'] !== 'exec' || !isOfNpx(commandOf(parent), process.env['npm_lifecycle_script'])) return;
  const looks = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(looks);
    log.info('npx, which started this server, has ended: stopping');
    stop();
  }, PARENT_LOOK_MS).unref();
}

/** npm, or its shell with the script. What a program of npx starts has inherited the environment, and stays. */
export function isOfNpx(command: string, script: string | undefined): boolean {
  if (command.startsWith('npm exec')) return true;
  return script !== undefined && ['sh -c ', 'sh -c -- '].some((shell) => command.includes(`${shell}${script}`));
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    // Not Linux.
    return spawnSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).stdout ?? '';
  }
}
