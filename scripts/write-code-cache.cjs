/**
 * Preloaded into a program and its threads: writes what V8 compiled of their bundles, a while after they were loaded,
 * so that the functions which every start calls are part of it.
 */
const { chmodSync, renameSync, writeFileSync } = require('node:fs');
const process = require('node:process');
const { settings } = require('../dist/bundle/load.cjs');

const AFTER_MS = 1500;
/** Where V8 keeps the hash of its flags in a code cache. */
const FLAGS_HASH = [12, 16];

settings.made = (script, file) => {
  // The program sets flags of V8's heap when it runs. The next one loads the cache before it does.
  const flags = script.createCachedData().subarray(...FLAGS_HASH);
  setTimeout(() => {
    const code = script.createCachedData();
    code.set(flags, FLAGS_HASH[0]);
    const written = `${file}.${process.pid}.tmp`;
    writeFileSync(written, code);
    // Every user reads it, whatever the umask of a node.
    chmodSync(written, 0o644);
    renameSync(written, file);
  }, AFTER_MS);
};
