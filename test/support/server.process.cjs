// Loaded before the program of a server, and in its threads, by `--require`. CommonJS, because after an `--import` Node
// loads a shard thread as a module of both kinds, for a fifth more processor.
//
// - TEST_TICK_MS is how often the shards tick. The program itself is the one that ships, which has no option for it.
// - TEST_CODE_CACHE is a folder with what V8 compiled of the bundles (code-cache.process.ts), or gets it after a while.
const { readFileSync, renameSync, statSync, writeFileSync } = require('node:fs');
const Module = require('node:module');
const { basename, dirname, join } = require('node:path');
const { Script, constants } = require('node:vm');
const threads = require('node:worker_threads');

const { TEST_TICK_MS, TEST_CODE_CACHE, TEST_CODE_CACHE_AFTER_MS } = process.env;
/** Where V8 keeps it in a code cache. */
const FLAGS_HASH = [12, 16];
const BUNDLES = join(__dirname, '../../dist/bundle');

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

if (TEST_CODE_CACHE !== undefined) {
  const compile = Module.prototype._compile;
  Module.prototype._compile = function (content, filename) {
    const script = dirname(filename) === BUNDLES ? compiled(content, filename) : undefined;
    if (script === undefined) return compile.call(this, content, filename);
    const required = Object.assign((name) => this.require(name), Module.createRequire(filename));
    const run = script.runInThisContext();
    return run.call(this.exports, this.exports, required, this, filename, dirname(filename));
  };
}

/** Undefined: the cache has nothing for this file, and gets nothing. V8 compiles what it refuses. */
function compiled(content, filename) {
  const { size, mtimeMs } = statSync(filename);
  const file = join(TEST_CODE_CACHE, `${basename(filename)}-${size}-${mtimeMs}`);
  const isWritten = TEST_CODE_CACHE_AFTER_MS !== undefined;
  let cachedData;
  try {
    cachedData = readFileSync(file);
  } catch {
    if (!isWritten) return undefined;
  }
  const script = new Script(Module.wrap(content), {
    filename,
    cachedData,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  if (!isWritten) return script;
  // The program sets flags of V8's heap when it runs. The next one loads the cache before it does.
  const flags = script.createCachedData().subarray(...FLAGS_HASH);
  setTimeout(() => {
    // Functions that were compiled meanwhile are part of it.
    const code = script.createCachedData();
    code.set(flags, FLAGS_HASH[0]);
    writeFileSync(`${file}.${process.pid}.tmp`, code);
    renameSync(`${file}.${process.pid}.tmp`, file);
  }, Number(TEST_CODE_CACHE_AFTER_MS)).unref();
  return script;
}
