// Backup and restore through the admin plane of real servers: what comes back is what was there.
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRandom } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { describeWorld, fillWorld, repeatProducers } from './world.ts';

const GROUPS = 3;
const STREAMS = 60;
const TOML = `
[storage.cold]
backend = "dir"
root = "test"
flush_interval = "300ms"
`;

async function exportOf(server: TestServer, group: number): Promise<Buffer> {
  const answer = await requestOnce(server.adminPort, 'GET', `/__svc/backup/group/${group}`);
  assert.equal(answer.status, 200, answer.body.toString());
  return answer.body;
}

const importTo = (server: TestServer, group: number, body: Buffer): ReturnType<typeof requestOnce> =>
  requestOnce(server.adminPort, 'POST', `/__svc/backup/group/${group}/import`, {}, body);

for (const seed of IS_THOROUGH ? [1, 2] : [1]) {
  test(`a restored cluster shows what its source showed, cold bytes by key (seed ${seed})`, async () => {
    await withServer({ cores: 2, groups: GROUPS, toml: TOML }, async (source) => {
      const random = createRandom(seed);
      const world = await fillWorld(source, random, STREAMS);
      await until('nothing is hot', async () => (await source.metrics())['cold_hot_bytes'] === 0);
      // On top of what is cold, some that is hot when the export begins.
      const { port } = source;
      const more = await requestOnce(
        port,
        'POST',
        world.streams[0] as string,
        { 'content-type': 'text/plain' },
        Buffer.from('hot'),
      );
      assert.equal(more.status, 204, more.body.toString());
      const before = await describeWorld(source, world);
      const documents = await Promise.all([0, 1, 2].map((group) => exportOf(source, group)));
      await withServer({ process: true, cores: 1, groups: GROUPS, toml: TOML }, async (copy) => {
        cpSync(join(source.dataDir, 'cold'), join(copy.dataDir, 'cold'), { recursive: true });
        for (const [group, document] of documents.entries()) {
          const answer = await importTo(copy, group, document);
          assert.equal(answer.status, 200, answer.body.toString());
          assert.equal((JSON.parse(answer.body.toString()) as Record<string, unknown>)['group_commit_index'], 1);
        }
        assert.deepEqual(await describeWorld(copy, world), before);
        await copy.kill();
        await copy.start();
        assert.deepEqual(await describeWorld(copy, world), before);
        assert.deepEqual(await repeatProducers(copy, world), await repeatProducers(source, world));
        const again = await importTo(copy, 1, documents[1] as Buffer);
        assert.equal(again.status, 409, again.body.toString());
      });
    });
  });
}

test('a node tells of a backup that it took or holds as its source, and of none that it refused', async () => {
  const small = { cores: 1, groups: 1 };
  const [first, second] = ['1'.repeat(32), '2'.repeat(32)];
  await withServer(small, (source) =>
    withServer(small, async (copy) => {
      assert.equal((await requestOnce(source.port, 'PUT', '/b/s', { 'content-type': 'text/plain' })).status, 201);
      const document = await exportOf(source, 0);
      const take = async (server: TestServer, cluster: string, blake3: string): Promise<[number, unknown, unknown]> => {
        const headers = {
          'x-svc-backup-cluster': cluster,
          ...(blake3 === '' ? {} : { 'x-svc-backup-blake3': blake3 }),
        };
        const path = '/__svc/backup/group/0/import';
        const { status, body } = await requestOnce(server.adminPort, 'POST', path, headers, document);
        const told = JSON.parse(body.toString()) as Record<string, unknown>;
        const info = await requestOnce(server.adminPort, 'GET', '/__svc/backup/info');
        const { restored_from: sources } = JSON.parse(info.body.toString()) as Record<string, unknown>;
        return [status, sources, told['imported_blake3']];
      };
      assert.deepEqual(await take(source, first, ''), [409, [], null]);
      assert.deepEqual(await take(copy, first, ''), [200, [first], undefined]);
      const [, , digest] = await take(copy, first, '');
      assert.deepEqual(await take(copy, second, 'f'.repeat(64)), [409, [first], digest]);
      assert.deepEqual(await take(copy, second, String(digest)), [409, [first, second], digest]);
    }),
  );
});
