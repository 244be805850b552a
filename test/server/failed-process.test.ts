// A node that has failed ends, also while a thread of it waits in the system for a disk that does not answer.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

test('a failed node whose other shards hang on their disk ends after a moment', async (t) => {
  const folder = temporaryFolder('failed');
  // The thread waits in the call that opens it, as in one to a disk that hangs.
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const url = new URL('../../src/server/process.js', import.meta.url).href;
  const hangs = `
    import { openSync } from 'node:fs';
    import { parentPort } from 'node:worker_threads';
    parentPort.postMessage('begins');
    openSync(${JSON.stringify(pipe)}, 'r');`;
  const script = `
    import { Worker } from 'node:worker_threads';
    import { endOnFailure } from ${JSON.stringify(url)};
    new Worker(${JSON.stringify(hangs)}, { eval: true }).on('message', () => {
      endOnFailure({ fatal: () => console.log('told') })({ cause: new Error('the disk of another shard') });
    });`;
  const failed = run([process.execPath, '--input-type=module', '-e', script]);
  t.after(() => {
    failed.child.kill('SIGKILL');
    removeFolder(folder);
  });
  assert.equal(await within(failed.exited, PATIENCE_MS, 'the end of the process'), 'SIGKILL', failed.output());
  assert.match(failed.output(), /told/);
});
