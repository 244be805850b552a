// A shard's thread that cannot go on ends by itself. Its timers would call LMDB until the node ends it, and within such a
// call the process would abort, without the sentence that says why.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { loadConfig } from '../../src/config/load.ts';
import { NodeLog } from '../../src/logging/logger.ts';
import { launch } from '../../src/server/launch.ts';
import type { ShardThread } from '../../src/server/shards.ts';
import { threadEntry } from '../../src/threads/entry.ts';
import { removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const META_PAGES_BYTES = 2 * 4096;

test('a shard that cannot go on ends its thread', async (t) => {
  const dataDir = temporaryFolder('refused-thread');
  t.after(() => removeFolder(dataDir));
  const threads: Worker[] = [];
  const failures: string[] = [];
  const node = await launch({
    config: loadConfig(
      ['--data', dataDir, '--cores', '1', '--groups', '1', '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'],
      {},
    ),
    log: NodeLog.to({ write: () => undefined }),
    // A node that is too busy to end its threads.
    startThread: (workerData, transferList): ShardThread => {
      const worker = new Worker(threadEntry('shard'), { workerData, transferList: [...transferList] });
      threads.push(worker);
      return {
        on: (...listener: Parameters<Worker['on']>) => worker.on(...listener),
        postMessage: (message) => worker.postMessage(message),
        terminate: async () => undefined,
      };
    },
    onFailure: ({ message }) => failures.push(message),
  });
  t.after(async () => {
    await Promise.all(threads.map((thread) => thread.terminate()));
    await node.stop(0);
  });
  const ended = Promise.all(threads.map((thread) => once(thread, 'exit')));
  const file = openSync(join(dataDir, 'shard-0', 'data.mdb'), 'r+');
  const { size } = fstatSync(file);
  writeSync(file, new Uint8Array(size - META_PAGES_BYTES), 0, size - META_PAGES_BYTES, META_PAGES_BYTES);
  closeSync(file);
  // It writes a checkpoint first.
  void node.stop(0);
  await within(ended, PATIENCE_MS, 'the end of the thread');
  assert.match(failures.join(), /data\.mdb/);
});
