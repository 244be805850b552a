/**
 * Preloaded into the first run of each file. Node's test runner follows every promise, timer and socket back to a test,
 * which takes a tenth of the processor of files with nodes, to blame that test for an error outside its calls. Here it
 * knows tests and suites only: such an error ends the process with 1, and the second run names the test.
 */
const process = require('node:process');
const hooks = require('node:async_hooks');
const { isMainThread } = require('node:worker_threads');

if (isMainThread && process.versions.node.startsWith('20.')) {
  const { AsyncResource, createHook } = hooks;
  let init = () => undefined;
  hooks.createHook = (callbacks) => {
    ({ init } = callbacks);
    return { enable: () => undefined, disable: () => undefined };
  };
  hooks.AsyncResource = class extends AsyncResource {
    constructor(type, options) {
      super(type, options);
      init(this.asyncId(), type, this.triggerAsyncId(), this);
    }
  };
  // It takes both as it is loaded.
  require('node:test');
  Object.assign(hooks, { AsyncResource, createHook });
}
