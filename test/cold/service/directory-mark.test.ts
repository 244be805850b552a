// The directory of the cold store whose file system goes away, under a running server and before a start: nothing may
// be written to the mount point, where it would be hidden when the file system is back.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeDirStore } from '../../../src/cold/store/dir-store.ts';
import { ConfigError } from '../../../src/config/error.ts';
import { prepareDirectory } from '../../../src/cold/service/directory-mark.ts';
import { requestOnce } from '../../support/raw-client.ts';
import { until } from '../../support/until.ts';
import { TestServer, removeFolder, temporaryFolder } from '../../support/server.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';

const TIMEOUT_MS = 10_000;
const TEXT = { 'Content-Type': 'text/plain' };

test('a directory that was used and is not there any more is refused; a new one, another one and one in the way are not', async () => {
  const folder = temporaryFolder('mount');
  try {
    const store = join(folder, 'store');
    const prepare = (directory: string, root: string): Promise<void> =>
      prepareDirectory({ dataDir: folder, directory, root, timeoutMs: TIMEOUT_MS, runtime: PROCESS_RUNTIME });
    await prepare(store, 'a/b');
    await prepare(store, 'a/b');
    renameSync(store, `${store}.away`);
    await assert.rejects(prepare(store, 'a/b'), (error) => {
      return (
        error instanceof ConfigError &&
        /store\/a\/b .*is its file system mounted\? .*cold-store\.json/.test(error.message)
      );
    });
    mkdirSync(store);
    await assert.rejects(prepare(store, 'a/b'), ConfigError);
    assert.deepEqual(readdirSync(store), []);
    await prepare(store, 'elsewhere');
    writeFileSync(join(folder, 'file'), '');
    await assert.rejects(prepare(join(folder, 'file'), ''), /cannot write to the directory .*\/file: .*ENOTDIR/);
    // A place that says ENOENT to every mkdir.
    await assert.rejects(prepare('/proc/nothing/here', 'x'), /\/proc\/nothing cannot be made there/);
    await assert.rejects(makeDirStore('/proc/nothing/here', 'x'), /\/proc\/nothing cannot be made there/);
    writeFileSync(join(folder, 'cold-store.json'), '{');
    await assert.rejects(prepare(store, 'elsewhere'), /cold-store\.json is damaged/);
  } finally {
    removeFolder(folder);
  }
});

test('while the file system is away bytes stay on the node, and all are there when it is back', async () => {
  const folder = temporaryFolder('mount');
  const store = join(folder, 'store');
  const toml = `[storage.cold]
backend = "dir"
dir = "${store}"
flush_interval = "50ms"
flush_size = 1
gc_interval = "100ms"
gc_grace = "1ms"
cache.max_size = 0
`;
  const server = new TestServer({ cores: 1, groups: 1, toml });
  const objects = (): string[] => (existsSync(store) ? readdirSync(store, { recursive: true, encoding: 'utf8' }) : []);
  const holds = (bucket: string): boolean => objects().some((name) => new RegExp(`/${bucket}/[^/]+/[^/]+$`).test(name));
  const metrics = async (): Promise<Record<string, number>> => (await server.metrics()) as Record<string, number>;
  try {
    await server.start();
    for (const name of ['/kept/s', '/doomed/s']) {
      assert.equal((await requestOnce(server.port, 'PUT', name, TEXT, 'first ')).status, 201);
    }
    await until('both are in the store', () => Promise.resolve(holds('kept') && holds('doomed')));
    // And published: an object whose put is in progress would be unreferenced and never removed.
    await until('nothing is hot', async () => (await metrics())['cold_hot_bytes'] === 0);
    renameSync(store, `${store}.away`);
    mkdirSync(store);
    assert.equal((await requestOnce(server.port, 'POST', '/kept/s', TEXT, 'second')).status, 204);
    const read = await requestOnce(server.port, 'GET', '/kept/s?offset=-1');
    assert.deepEqual([read.status, read.headers.get('retry-after')], [503, '1'], read.body.toString());
    assert.equal((await requestOnce(server.port, 'DELETE', '/doomed/s')).status, 204);
    await server.logged(/the cold store fails.*|is its file system mounted/);
    await until('an upload and a removal have failed', async () => {
      const counts = await metrics();
      return (counts['cold_store_upload_errors'] as number) > 0 && (counts['cold_store_remove_errors'] as number) > 0;
    });
    assert.deepEqual(objects(), [], 'nothing below the mount point');
    const shown = (await metrics())['cold_store'] as unknown as Record<string, unknown>;
    assert.deepEqual([shown['reachable'], shown['was_reached']], [false, true]);
    assert.match(String(shown['last_error']), /is its file system mounted/);
    assert.equal((await requestOnce(server.adminPort, 'GET', '/__svc/ready')).status, 200);
    assert.equal(server.log().split('the cold store fails').length - 1, 1, 'an outage is one line');
    rmdirSync(store);
    renameSync(`${store}.away`, store);
    await until('what was deleted meanwhile leaves the store', () => Promise.resolve(!holds('doomed')));
    assert.equal((await requestOnce(server.port, 'GET', '/kept/s?offset=-1')).body.toString(), 'first second');
    await server.logged(/the cold store works again/);
    await server.stop();
    renameSync(store, `${store}.away`);
    mkdirSync(store);
    await assert.rejects(server.start(), /file system mounted/);
    rmdirSync(store);
    renameSync(`${store}.away`, store);
    await server.start();
    assert.equal((await requestOnce(server.port, 'GET', '/kept/s?offset=-1')).body.toString(), 'first second');
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
});
