/** Thread entry: writes the checkpoints of one shard. */
import { isMainThread, workerData } from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { type WriterData, serveWriter } from '../src/store/checkpoint-writer.ts';
import { Environment, LmdbTx } from '../src/store/environment.ts';

assert(!isMainThread, 'workers/checkpoint runs in a worker thread');
const data = workerData as WriterData;
const environment = new Environment(data.directory);
data.port.once('close', () => void environment.close());
const rows = new LmdbTx(environment.state, { beforeWrite: (key, change) => environment.beforeWrite(key, change) });
serveWriter(data, (write) => environment.commit(write), rows);
