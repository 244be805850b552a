// Nothing that a node or the tool makes can be read by other users of the host, and an open data directory is closed.
import assert from 'node:assert/strict';
import { chmodSync, lstatSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CTL_ENTRY } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, run, temporaryFolder, withServer } from '../support/server.ts';

/** As hosts have it that never thought of it. */
const OPEN_UMASK = ['/bin/sh', '-c', 'umask 000; exec "$@"', 'sh'];

/** Everything below the directory, including itself, that other users may read. */
function openEntries(path: string): string[] {
  const stats = lstatSync(path);
  const own =
    (stats.mode & 0o077) === 0 || stats.isSymbolicLink() ? [] : [`${path} ${(stats.mode & 0o777).toString(8)}`];
  if (!stats.isDirectory()) return own;
  return [...own, ...readdirSync(path).flatMap((name) => openEntries(join(path, name)))];
}

test('data, cold objects, marks and backups are for their owner alone', async () => {
  const folder = temporaryFolder('private');
  const cold = join(folder, 'cold');
  const toml = ['[storage.cold]', 'backend = "dir"', `dir = "${cold}"`, 'flush_interval = "100ms"'].join('\n');
  try {
    await withServer({ process: true, wrapper: OPEN_UMASK, toml, groups: 2 }, async (server) => {
      const created = await requestOnce(
        server.port,
        'PUT',
        '/b/s',
        { 'content-type': 'text/plain' },
        'x'.repeat(100_000),
      );
      assert.equal(created.status, 201);
      assert.equal((await requestOnce(server.adminPort, 'POST', '/__svc/leadership-shed/maintenance')).status, 200);
      for (const group of [0, 1]) await requestOnce(server.adminPort, 'POST', `/__svc/raft/${group}/snapshot`);
      assert((await requestOnce(server.adminPort, 'POST', '/__svc/flush-cold/b/s')).status < 300);
      const clusterFile = join(folder, 'cluster.json');
      writeFileSync(clusterFile, JSON.stringify({ nodes: [{ id: 1, admin_url: server.adminUrl }] }));
      const backup = join(folder, 'backup');
      const node = [process.execPath, CTL_ENTRY, 'backup-create', '--config', clusterFile, '--location', backup];
      const made = run([...OPEN_UMASK, ...node]);
      assert.equal(await made.exited, 0, made.output());
      assert(readdirSync(backup).length > 1, 'a backup');
      for (const path of [server.dataDir, cold, backup]) assert.deepEqual(openEntries(path), []);
    });
  } finally {
    removeFolder(folder);
  }
});

test('an open data directory is closed at the start, and the log says so', async () => {
  await withServer({ process: true, wrapper: OPEN_UMASK }, async (server) => {
    await server.stop();
    assert.doesNotMatch(server.log(), /open to other users/);
    const shard = join(server.dataDir, 'shard-0');
    for (const [path, mode] of [
      [server.dataDir, 0o755],
      [join(server.dataDir, 'millrace.json'), 0o644],
      [shard, 0o775],
      [join(shard, 'data.mdb'), 0o666],
    ] as const) {
      chmodSync(path, mode);
    }
    // The target of a link is not the directory's.
    symlinkSync(server.configFile, join(server.dataDir, 'link'));
    chmodSync(server.configFile, 0o644);
    await server.start();
    assert.match(await server.logged(/closed to them now/), /"entries":4/);
    assert.deepEqual(openEntries(server.dataDir), []);
    assert.equal(lstatSync(server.configFile).mode & 0o777, 0o644);
  });
});
