// A cold directory that hangs, as a network file system does: a FIFO in the place of an object, which no thread can
// open. The process ends all the same, by a signal of its own when its threads do not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { objectsIn } from '../support/cold-store.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const PATH = '/hanging/stream';
/** Without a cache, so that each read has to ask the store. */
const COLD = '[storage.cold]\nbackend = "dir"\nflush_interval = "50ms"\nflush_size = 1\ncache.max_size = 0\n';

/** The one object whose bytes the stream has. */
function objectIn(server: TestServer): string {
  const paths = objectsIn(join(server.dataDir, 'cold'));
  const object = paths.find((path) => statSync(path).size >= 1000);
  assert(object !== undefined, paths.join(' '));
  return object;
}

/** A server with a read that hangs in a thread. */
async function withHangingRead(body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = new TestServer({ process: true, toml: COLD });
  try {
    await server.start();
    await server.client.create(PATH, TEXT);
    await server.client.append(PATH, TEXT, Buffer.alloc(1000, 'x'));
    await until('the bytes are cold', async () => (await server.metrics())['cold_hot_bytes'] === 0);
    const object = objectIn(server);
    rmSync(object);
    assert.equal(spawnSync('mkfifo', [object]).status, 0);
    const reader = await RawClient.connect(server.port);
    void reader.request('GET', `${PATH}?offset=-1`).catch(() => undefined);
    await until('a thread of the pool reads', async () => {
      const { cold_read_pending: pending, cold_pool_tasks: tasks } = await server.metrics();
      return pending === 1 && Number(tasks) >= 1;
    });
    reader.destroy();
    await body(server);
  } finally {
    await server.dispose();
  }
}

describe('a cold directory that hangs', { concurrency: true }, () => {
  it('a server whose cold directory hangs ends by itself after SIGTERM', async () => {
    await withHangingRead(async (server) => {
      assert.equal(await server.stop(), 'SIGKILL');
      assert.match(server.log(), /the process kills itself/);
      // Nothing was lost, and the next start serves.
      await server.start();
      await server.client.expect(200, 'HEAD', PATH);
    });
  });

  it('a second signal ends it at once', async () => {
    await withHangingRead(async (server) => {
      process.kill(server.pid, 'SIGTERM');
      await server.logged(/stopping/);
      // Signals of the first second are taken for one.
      await until('another signal ends it', () => {
        if (server.isRunning) process.kill(server.pid, 'SIGTERM');
        return !server.isRunning;
      });
      assert.equal(await within(server.exited, PATIENCE_MS, 'the end'), 'SIGKILL');
      assert.doesNotMatch(server.log(), /kills itself/);
    });
  });
});
