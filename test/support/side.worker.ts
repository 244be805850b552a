// A thread beside that of a shard that serves one node after the other, with the code that ships.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { threadEntry } from '../../src/threads/entry.ts';
import type { SideThreadName } from './side-threads.ts';

interface Side {
  serve(data: unknown): Promise<void> | void;
}

const require = createRequire(import.meta.url);

async function serve({ name, data }: { name: SideThreadName; data: unknown }): Promise<void> {
  await (require(fileURLToPath(threadEntry(name))) as Side).serve(data);
  parentPort?.postMessage('served');
}

// A failure ends the thread, as it ends one of a server.
parentPort?.on('message', (asked: Parameters<typeof serve>[0]) => void serve(asked));
