// A thread that fails while its checkpoint thread begins and writes: a shard whose files are removed.
import { writeFileSync } from 'node:fs';
import { Worker, workerData } from 'node:worker_threads';
import { ThreadWriter, type WriterData, serveWriter } from '../../src/store/checkpoint-writer.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';

/** A start and a commit of LMDB take so long on a busy machine. */
const CALL_MS = 300;
const PAUSE = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

const data = workerData as WriterData | string;
if (typeof data === 'string') {
  const writer = new ThreadWriter(
    data,
    (given) => new Worker(new URL(import.meta.url), { workerData: given, transferList: [given.port] }),
  );
  writer.start([]);
  throw new Error('its files are gone');
}
Atomics.wait(PAUSE, 0, 0, CALL_MS);
serveWriter(
  data,
  () => {
    Atomics.wait(PAUSE, 0, 0, CALL_MS);
    writeFileSync(data.directory, '');
  },
  new SortedMapTx(),
);
