// A restored cluster whose cold store is not the source's says so at once, and is whole as soon as it is.
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { clusterFileOf, ctl } from '../../support/ctl.ts';
import { requestOnce } from '../../support/raw-client.ts';
import { until } from '../../support/until.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../../support/server.ts';

const GROUPS = 2;
const STREAMS = 12;
const TOML = '[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "100ms"\n';

async function hotBytes(server: TestServer): Promise<unknown> {
  return (await server.metrics())['cold_hot_bytes'];
}

async function fill(server: TestServer): Promise<void> {
  const type = { 'content-type': 'text/plain' };
  for (let i = 0; i < STREAMS; i++) {
    const answer = await requestOnce(server.port, 'PUT', `/bucket/s${i}`, type, Buffer.from(`stream ${i}`));
    assert.equal(answer.status, 201);
  }
  await until('nothing is hot', async () => (await hotBytes(server)) === 0);
}

test('restore says when the objects of its backup are not in the cold store of the cluster', async () => {
  const location = join(temporaryFolder('cold-sample'), 'backup');
  await withServer({ cores: 1, groups: GROUPS, toml: TOML }, async (source) => {
    await fill(source);
    const created = await ctl(['backup-create', '--config', clusterFileOf(source), '--location', location]);
    assert.equal(created.code, 0, created.stderr);
    const restore = (server: TestServer): ReturnType<typeof ctl> =>
      ctl(['restore', '--config', clusterFileOf(server), '--location', location]);

    await withServer({ cores: 1, groups: GROUPS }, async (without) => {
      const result = await restore(without);
      assert.match(
        result.stderr,
        /all groups are restored .* of \d+ objects .* \d+ cannot be read \(this node has no cold store\)/,
      );
      assert.equal(result.code, 1);
    });
    await withServer({ cores: 1, groups: GROUPS, toml: TOML }, async (elsewhere) => {
      const result = await restore(elsewhere);
      assert.match(
        result.stderr,
        /cannot be read \(.*there is no such object\); give every node the storage\.cold settings/,
      );
      assert.equal(result.code, 1);
      // Nothing has to be restored again.
      cpSync(join(source.dataDir, 'cold'), join(elsewhere.dataDir, 'cold'), { recursive: true });
      for (let i = 0; i < STREAMS; i++) {
        const read = await requestOnce(elsewhere.port, 'GET', `/bucket/s${i}?offset=-1`);
        assert.equal(read.body.toString(), `stream ${i}`);
      }
    });
    await withServer({ cores: 1, groups: GROUPS, toml: TOML }, async (copy) => {
      cpSync(join(source.dataDir, 'cold'), join(copy.dataDir, 'cold'), { recursive: true });
      const result = await restore(copy);
      assert.equal(result.code, 0, result.stderr);
      assert.match(result.stdout, /^restore complete: 2 groups, /);
    });
  });
  removeFolder(location);
});
