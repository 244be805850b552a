// Our server, as a user starts it: one node, every default, the data on a real file system.

import { existsSync } from 'node:fs';
import { freePort, memoryOf, removeFolder, startChild, temporaryFolder, waitForPort } from '../processes.ts';
import { HttpExchange } from '../load/exchange.ts';
import { streamPath, type Running, type StartOptions, type Target } from './target.ts';

/** A single voter elects itself within an election timeout; this only covers a machine that is very busy. */
const LEADER_TIMEOUT_MS = 10_000;

async function start(options: StartOptions): Promise<Running> {
  const folder = temporaryFolder(options.dir, 'millrace');
  const [port, adminPort] = [await freePort(), await freePort()];
  const flags = ['--data', folder, '--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
  const args = [...options.nodeArgs, options.entry, ...flags, '--cores', String(options.cores)];
  const child = startChild(process.execPath, args, options.cpus);
  await waitForPort(child, port, 'millrace');
  await waitForLeaders(port);
  return {
    name: 'millrace',
    port,
    protocol: 'http',
    memory: () => memoryOf(child.pid),
    stop: async () => {
      await child.stop();
      removeFolder(folder);
    },
  };
}

/** Listening is not leading: a create that is refused with 503 before the first election must not end the run. */
export async function waitForLeaders(port: number): Promise<void> {
  const exchange = await HttpExchange.open(port);
  const deadline = Date.now() + LEADER_TIMEOUT_MS;
  for (;;) {
    const { status } = await exchange.request('PUT', streamPath('bench-is-ready'), 'application/octet-stream');
    if (status === 200 || status === 201) break;
    if (Date.now() > deadline) throw new Error(`millrace answers ${status} to a create after ${LEADER_TIMEOUT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  exchange.close();
}

export const millrace: Target = {
  name: 'millrace',
  durability: 'fsync before every acknowledgement (Raft log in LMDB, one voter)',
  missing: ({ entry }) => (existsSync(entry) ? undefined : `${entry} does not exist: npm run build`),
  start,
};
