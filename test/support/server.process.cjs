// Loaded before the program of a server, and in its threads, by `--require`. CommonJS, because after an `--import` Node
// loads a shard thread as a module of both kinds, for a fifth more processor.
//
// TEST_TICK_MS is how often the shards tick. The program itself is the one that ships, which has no option for it.
const Module = require('node:module');
const threads = require('node:worker_threads');
require('../../scripts/suite/optimize-late.cjs');

const { TEST_TICK_MS } = process.env;

if (TEST_TICK_MS !== undefined) {
  const tickMs = Number(TEST_TICK_MS);
  threads.Worker = class extends threads.Worker {
    constructor(entry, options = {}) {
      const data = options.workerData;
      const isShard = typeof data === 'object' && data !== null && 'tickMs' in data;
      super(entry, isShard ? { ...options, workerData: { ...data, tickMs } } : options);
    }
  };
  Module.syncBuiltinESMExports();
}
