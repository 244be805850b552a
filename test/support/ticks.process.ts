// Loaded before the program of a server, by `--import`: `?ms=` of its own address is how often the shards tick. The
// program itself is the one that ships, which has no option for it.
import { syncBuiltinESMExports } from 'node:module';
import threads, { Worker, type WorkerOptions } from 'node:worker_threads';

const tickMs = Number(new URL(import.meta.url).searchParams.get('ms'));

class TickingWorker extends Worker {
  constructor(entry: string | URL, options: WorkerOptions = {}) {
    const data: unknown = options.workerData;
    const isShard = typeof data === 'object' && data !== null && 'tickMs' in data;
    super(entry, isShard ? { ...options, workerData: { ...data, tickMs } } : options);
  }
}

Object.assign(threads, { Worker: TickingWorker });
syncBuiltinESMExports();
