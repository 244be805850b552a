// Loaded before the program of a server, by `--require`: how often the shards tick. The program itself is the one that
// ships, which has no option for it. CommonJS, because after an `--import` Node loads a shard thread as a module of
// both kinds, for a fifth more processor.
const { syncBuiltinESMExports } = require('node:module');
const threads = require('node:worker_threads');

const tickMs = Number(process.env.TEST_TICK_MS);

class TickingWorker extends threads.Worker {
  constructor(entry, options = {}) {
    const data = options.workerData;
    const isShard = typeof data === 'object' && data !== null && 'tickMs' in data;
    super(entry, isShard ? { ...options, workerData: { ...data, tickMs } } : options);
  }
}

threads.Worker = TickingWorker;
syncBuiltinESMExports();
