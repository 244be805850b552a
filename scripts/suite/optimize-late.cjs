/**
 * Preloaded into processes with nodes. Nodes of tests live for seconds, and V8 would spend a fifth of the processor on
 * optimizing code that is thrown away soon; so it waits thirty times longer (67,584 units of bytecode by default). Later
 * versions have no such flag. Not from the beginning: Node and the bundles have code caches, which V8 refuses under
 * other flags than those they were made with.
 */
const process = require('node:process');
const { setFlagsFromString } = require('node:v8');
const { isMainThread } = require('node:worker_threads');

/** Most starts are over by then. */
const AFTER_MS = 2000;

if (isMainThread && process.versions.node.startsWith('20.'))
  setTimeout(() => setFlagsFromString('--interrupt-budget=2000000'), AFTER_MS).unref();
