/**
 * Loads a bundle with what V8 compiled of it when it was built (scripts/code-cache.mjs), which takes half the time of
 * compiling it again. V8 refuses what another version of it, or one with other flags, has made, and compiles.
 *
 * The name of a cache holds the checksum of its bundle: V8 itself compares the lengths only. Every character of a
 * bundle is ASCII (scripts/bundle.mjs), so a string of one byte each is all that has to be made of the file.
 */
const { readFileSync } = require('node:fs');
const Module = require('node:module');
const { dirname, join } = require('node:path');
const process = require('node:process');
const { Script } = require('node:vm');
const { crc32 } = require('node:zlib');

/** `made` hears of a script that was compiled without a cache. */
exports.settings = { made: undefined };

exports.load = function load(name) {
  const { made } = exports.settings;
  const filename = join(__dirname, `${name}.cjs`);
  const bytes = readFileSync(filename);
  const cache = join(__dirname, `${name}-${process.version}-${process.arch}-${crc32(bytes).toString(16)}.cache`);
  const cachedData = made === undefined ? read(cache) : undefined;
  // Node reads the source maps of what it loads itself.
  if ((cachedData === undefined && made === undefined) || process.sourceMapsEnabled) return require(filename);
  const script = new Script(Module.wrap(bytes.latin1Slice()), { filename, cachedData });
  made?.(script, cache);
  const module = new Module(filename, null);
  module.filename = filename;
  // Its chunks require it in turn.
  Module._cache[filename] = module;
  script
    .runInThisContext()
    .call(module.exports, module.exports, Module.createRequire(filename), module, filename, dirname(filename));
  return module.exports;
};

function read(file) {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}
