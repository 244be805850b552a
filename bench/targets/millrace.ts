// Our server, as a user starts it: one node, every default, the data on a real file system.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { memoryOf, startChild, temporaryFolder, waitForPort } from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import { HttpExchange } from '../load/exchange.ts';
import { streamPath, type Running, type StartOptions, type Target } from './target.ts';

/** A single voter elects itself within an election timeout; this only covers a machine that is very busy. */
const LEADER_TIMEOUT_MS = 10_000;

/** Tokens have to allow its creation. */
export const READY_STREAM = 'bench-is-ready';

/** The one under test, or the one of --before. */
export type Build = 'now' | 'before';

async function start(name: Running['name'], entry: string, options: StartOptions): Promise<Running> {
  const folder = temporaryFolder(options.dir, 'millrace');
  const [port, adminPort] = [await freePort(), await freePort()];
  const flags = ['--data', folder, '--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
  const config = options.config === undefined ? [] : ['--config', options.config];
  const args = [...options.nodeArgs, entry, ...flags, ...config, '--cores', String(options.cores)];
  const child = startChild(process.execPath, args, options.cpus);
  await waitForPort(child, port, 'millrace');
  await waitForLeaders(port, options.token);
  return {
    name,
    port,
    protocol: 'http',
    token: options.token,
    processes: [{ pid: child.pid, shardThreads: options.cores }],
    memory: () => memoryOf(child.pid),
    stop: () => child.stop(),
  };
}

/** Listening is not leading: a create that is refused with 503 before the first election must not end the run. */
export async function waitForLeaders(port: number, token?: string): Promise<void> {
  const exchange = await HttpExchange.open(port, token);
  const deadline = Date.now() + LEADER_TIMEOUT_MS;
  for (;;) {
    const { status } = await exchange.request('PUT', streamPath(READY_STREAM), 'application/octet-stream');
    if (status === 200 || status === 201) break;
    if (Date.now() > deadline) throw new Error(`millrace answers ${status} to a create after ${LEADER_TIMEOUT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  exchange.close();
}

/** The entry point of a build. */
export function entryOf(build: Build, options: StartOptions): string {
  const entry = build === 'before' ? options.before : options.entry;
  assert(entry !== undefined, 'a build to compare with needs --before');
  return entry;
}

export function missingEntry(build: Build, options: StartOptions): string | undefined {
  const entry = entryOf(build, options);
  return existsSync(entry) ? undefined : `${entry} does not exist: npm run build`;
}

const DURABILITY = 'fsync before every acknowledgement (one voter)';

export const millrace: Target = {
  name: 'millrace',
  durability: DURABILITY,
  missing: (options) => missingEntry('now', options),
  start: (options) => start('millrace', entryOf('now', options), options),
};

export const millraceBefore: Target = {
  name: 'millrace-before',
  durability: `${DURABILITY}, the build of --before`,
  isBefore: true,
  missing: (options) => missingEntry('before', options),
  start: (options) => start('millrace-before', entryOf('before', options), options),
};
