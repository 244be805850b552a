// Redis as the rival in durable appends: every write is on disk before its reply (appendfsync always).

import { isInstalled, memoryOf, startChild, temporaryFolder, waitForPort } from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import type { Running, StartOptions, Target } from './target.ts';

async function start(options: StartOptions): Promise<Running> {
  const folder = temporaryFolder(options.dir, 'redis');
  const port = await freePort();
  const settings: Readonly<Record<string, string>> = {
    bind: '127.0.0.1',
    port: String(port),
    dir: folder,
    save: '',
    appendonly: 'yes',
    appendfsync: 'always',
    // A rewrite of the log in the middle of a run would cost the rival a fork and a second writer: its best case
    // counts.
    'auto-aof-rewrite-percentage': '0',
  };
  const args = Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value]);
  const child = startChild('redis-server', args, options.cpus);
  await waitForPort(child, port, 'redis');
  return {
    name: 'redis',
    port,
    protocol: 'redis',
    memory: () => memoryOf(child.pid),
    stop: () => child.stop(),
  };
}

export const redis: Target = {
  name: 'redis',
  durability: 'appendfsync always: fsync of the append-only file before replies (XADD)',
  missing: () => (isInstalled('redis-server') ? undefined : 'redis-server is not installed: apt install redis-server'),
  start,
};
