/** Thread entry: writes the checkpoints of one shard. */
import { isMainThread, workerData } from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { type WriterData, serveWriter } from '../src/store/checkpoint-writer.ts';
import { Environment, LmdbTx } from '../src/store/environment.ts';

/** Resolves when the shard has closed the port, and the environment is closed. */
export async function serve(data: WriterData): Promise<void> {
  const environment = new Environment(data.directory);
  const closed = new Promise((resolve) => data.port.once('close', resolve));
  const rows = new LmdbTx(environment.state, { beforeWrite: (key, change) => environment.beforeWrite(key, change) });
  serveWriter(data, (write) => environment.commit(write), rows);
  await closed;
  await environment.close();
}

assert(!isMainThread, 'workers/checkpoint runs in a worker thread');
// As in workers/shard.ts.
if (workerData !== undefined) void serve(workerData as WriterData);
