/** Thread entry: writes the checkpoints of one shard. */
import { isMainThread, workerData } from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { type WriterData, serveWriter } from '../src/store/checkpoint-writer.ts';
import { Environment, LmdbTx } from '../src/store/environment.ts';

assert(!isMainThread, 'workers/checkpoint runs in a worker thread');
const data = workerData as WriterData;
const environment = new Environment(data.directory, 'write');
data.port.once('close', () => void environment.close());
serveWriter(data, (write) => environment.commit(write), new LmdbTx(environment.state));
