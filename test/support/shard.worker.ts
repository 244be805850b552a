// A shard thread that serves one node after the other, with the code that ships.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { ShardData } from '../../src/server/shards.ts';
import { threadEntry } from '../../src/threads/entry.ts';
import { startSideThread } from './side-threads.ts';

interface Shard {
  serve(data: ShardData, port: MessagePort, startThread: typeof startSideThread): Promise<void>;
}

const entry = threadEntry('shard');
const shard = createRequire(entry)(fileURLToPath(entry)) as Shard;
// A failure ends the thread, as it ends one of a server.
parentPort?.on(
  'message',
  ({ data, port }: { data: ShardData; port: MessagePort }) => void shard.serve(data, port, startSideThread),
);
