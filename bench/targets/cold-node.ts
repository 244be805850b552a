// A single node with a cold store, or with none, as a user configures it: one TOML, every other default.

import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpExchange } from '../load/exchange.ts';
import {
  cpuMsOf,
  memoryOf,
  removeFolder,
  startChild,
  temporaryFolder,
  waitForPort,
  type Memory,
} from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import { waitForLeaders } from './millrace.ts';
import type { StartOptions } from './target.ts';

const COLD_TIMEOUT_MS = 300_000;
const POLL_MS = 50;

export interface ColdNode {
  readonly port: number;
  metrics(): Promise<Readonly<Record<string, number>>>;
  memory(): Memory;
  /** Processor time of all its threads so far. */
  cpuMs(): number;
  /** Size of the files of LMDB; they grow and never shrink. */
  databaseBytes(): number;
  /** Resolves when every byte is in the cold store. */
  allCold(): Promise<void>;
  stop(): Promise<void>;
}

export async function startColdNode(options: StartOptions, toml: string): Promise<ColdNode> {
  const folder = temporaryFolder(options.dir, 'cold');
  const [file, data] = [join(folder, 'node.toml'), join(folder, 'data')];
  writeFileSync(file, toml);
  const [port, adminPort] = [await freePort(), await freePort()];
  const planes = ['--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
  const flags = ['--config', file, '--data', data, ...planes, '--cores', String(options.cores)];
  const child = startChild(process.execPath, [...options.nodeArgs, options.entry, ...flags], options.cpus);
  await waitForPort(child, port, 'millrace');
  await waitForLeaders(port);
  const metrics = async (): Promise<Readonly<Record<string, number>>> => {
    // A connection for each look: the server closes those that are idle for long.
    const admin = await HttpExchange.open(adminPort);
    const { body } = await admin.request('GET', '/__svc/metrics');
    admin.close();
    return JSON.parse(body.toString('utf8')) as Record<string, number>;
  };
  return {
    port,
    metrics,
    memory: () => memoryOf(child.pid),
    cpuMs: () => cpuMsOf(child.pid),
    databaseBytes: () =>
      readdirSync(data)
        .filter((name) => name.startsWith('shard-'))
        .reduce((sum, name) => sum + statSync(join(data, name, 'data.mdb')).size, 0),
    allCold: async () => {
      const deadlineMs = performance.now() + COLD_TIMEOUT_MS;
      for (;;) {
        const hot = (await metrics())['cold_hot_bytes'];
        if (hot === 0) return;
        if (performance.now() > deadlineMs) throw new Error(`${hot} bytes are still hot`);
        await sleep(POLL_MS);
      }
    },
    stop: async () => {
      await child.stop();
      removeFolder(folder);
    },
  };
}
