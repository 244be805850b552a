// A thread that fails takes its checkpoint thread with it, which must not be in a call of LMDB then: the process would end
// by SIGABRT, without the sentence that says why.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { removeFolder, temporaryFolder } from '../support/server.ts';

test('a thread that fails waits until its checkpoint thread has begun, and has written', async (t) => {
  const folder = temporaryFolder('ending');
  t.after(() => removeFolder(folder));
  const written = join(folder, 'written');
  const thread = new Worker(new URL('./ending-thread.worker.js', import.meta.url), { workerData: written });
  const [error]: unknown[] = await once(thread, 'error');
  assert(error instanceof Error);
  assert.equal(error.message, 'its files are gone');
  assert(existsSync(written));
});
