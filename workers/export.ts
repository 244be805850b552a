/** Thread entry: reads groups for backups, at the lowest priority. */
import { constants, setPriority } from 'node:os';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { Exporting, type FromExports, type ToExports } from '../src/backup/export/exporting.ts';
import { StoreReader } from '../src/store/group-reader.ts';

assert(!isMainThread && parentPort !== null, 'workers/export runs in a worker thread');
const port = parentPort;
const directories = workerData as readonly string[];
const stores = new Map<number, StoreReader>();

// On Linux a priority belongs to a thread, and 0 names the one that asks.
setPriority(0, constants.priority.PRIORITY_LOW);

function storeOf(shard: number): StoreReader {
  let store = stores.get(shard);
  if (store === undefined) stores.set(shard, (store = new StoreReader(directories[shard] as string)));
  return store;
}

const exporting = new Exporting({
  open: (shard, group) => storeOf(shard).openGroup(group),
  post: (message: FromExports) => port.postMessage(message, 'piece' in message ? [message.piece.buffer] : []),
  later: (run) => void setImmediate(run),
});

async function stop(): Promise<void> {
  exporting.stop();
  for (const store of stores.values()) await store.close();
  port.close();
}

port.on('message', (message: ToExports) => {
  if ('open' in message) exporting.open(message.open, message.shard, message.order);
  else if ('left' in message) exporting.left(message.left, message.bytes);
  else if ('close' in message) exporting.close(message.close);
  else void stop();
});
