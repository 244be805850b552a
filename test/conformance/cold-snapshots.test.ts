// Positions in the cold region: snapshots, retention and bootstrap across the border of the tiers; a purge reclaims
// objects.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/server.ts';
import { multipart } from '../support/multipart.ts';
import { JSON_TYPE, TEXT, assertHeaders, offsetOf, serverSuite } from '../support/suite.ts';
import { objectsIn } from '../support/cold-store.ts';

const folder = join(temporaryFolder('cold'), 'objects');
const COLD = `[storage.cold]
backend = "dir"
dir = "${folder}"
root = "r"
flush_interval = "1h"
gc_interval = "1h"
`;

const objects = (): string[] => objectsIn(folder);

serverSuite(
  'snapshots over the cold tier',
  { process: true, cores: 1, toml: COLD },
  ({ server, test, expect, freshBucket }) => {
    const flush = async (path: string): Promise<void> => {
      await expect(200, `POST /__svc/flush-cold${path}`, { base: server.adminUrl });
    };

    test('a byte stream: only borders of messages, hot and cold; bootstrap before and after the flush is the same', async () => {
      const path = `/${freshBucket()}/s`;
      const bodies = ['abc', 'de', 'f'.repeat(9000), 'gh', 'i'.repeat(5000)];
      await expect(201, `PUT ${path}`, { headers: TEXT });
      for (const body of bodies) await expect(204, `POST ${path}`, { headers: TEXT, body });
      const whole = multipart(await expect(200, `GET ${path}/bootstrap`));
      await flush(path);
      assertHeaders(await expect(200, `HEAD ${path}`), { 'stream-cold-hot-start-offset': '14007' });
      for (const body of ['hot', 'tail']) await expect(204, `POST ${path}`, { headers: TEXT, body });
      const parts = multipart(await expect(200, `GET ${path}/bootstrap`));
      assert.deepEqual(parts.slice(0, -2), whole);
      assert.deepEqual(
        parts.slice(1).map(({ body }) => body),
        [...bodies, 'hot', 'tail'],
      );
      for (const inside of [1, 4, 6, 9004, 14006, 14008]) {
        await expect(400, `PUT ${path}/snapshot/${inside}`, { headers: TEXT, body: 'x' });
      }
      await expect(204, `PUT ${path}/snapshot/5`, { headers: TEXT, body: 'at 5' });
      await expect(400, `PUT ${path}/retention/4`);
      await expect(204, `PUT ${path}/retention/3`);
      await expect(410, `GET ${path}?offset=-1`);
      assert.equal((await expect(200, `GET ${path}?offset=3&max_bytes=3`)).text, 'def');
      await expect(204, `PUT ${path}/snapshot/9005`, { headers: TEXT, body: 'at 9005' });
      const answer = await expect(200, `GET ${path}/bootstrap`);
      assert.deepEqual(
        multipart(answer).map(({ body }) => body),
        ['at 9005', ...bodies.slice(3), 'hot', 'tail'],
      );
      assert.equal(offsetOf(answer), 14_014);
      await expect(204, `PUT ${path}/retention/9005`);
      await expect(204, `PUT ${path}/snapshot/14010`, { headers: TEXT, body: 'hot border' });
      await expect(204, `PUT ${path}/retention/14010`);
      assert.deepEqual(
        multipart(await expect(200, `GET ${path}/bootstrap`)).map(({ body }) => body),
        ['hot border', 'tail'],
      );
      await server.kill();
      await server.start();
      assert.equal((await expect(200, `GET ${path}?offset=14010`)).text, 'tail');
      await expect(410, `GET ${path}?offset=9005`);
    });

    test('a JSON stream: by record and by offset', async () => {
      const path = `/${freshBucket()}/s`;
      await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: '[{"a":1},{"b":2},[3],4]' });
      await flush(path);
      await expect(204, `POST ${path}`, { headers: JSON_TYPE, body: '[5,6]' });
      await expect(400, `PUT ${path}/snapshot/7`, { headers: TEXT, body: 'x' });
      await expect(204, `PUT ${path}/snapshot?record=1`, { headers: TEXT, body: 'one' });
      assertHeaders(await expect(307, `GET ${path}/snapshot`), { location: `${path}/snapshot/00000000000000000008` });
      await expect(204, `PUT ${path}/snapshot/16`, { headers: TEXT, body: 'two' });
      const raised = await expect(204, `PUT ${path}/retention?record=1`);
      assertHeaders(raised, { 'stream-retained-offset': '8', 'stream-record-first': '1', 'stream-record-next': '6' });
      await expect(410, `GET ${path}?record=0`);
      assert.equal((await expect(200, `GET ${path}?record=1`)).text, '[{"b":2},[3],4,5,6]');
      assert.deepEqual(
        multipart(await expect(200, `GET ${path}/bootstrap`)).map(({ body }) => body),
        ['two', '[3]\n', '4\n', '5\n', '6\n'],
      );
    });

    test('a bootstrap whose first bytes cannot be had is refused and says why, with and without a snapshot', async () => {
      const bucket = freshBucket();
      const path = `/${bucket}/s`;
      await expect(201, `PUT ${path}`, { headers: TEXT, body: 'abc' });
      await expect(204, `POST ${path}`, { headers: TEXT, body: 'de' });
      await expect(204, `PUT ${path}/snapshot/3`, { headers: TEXT, body: 'at 3' });
      await flush(path);
      const object = objects().find((name) => name.includes(`/${bucket}/`));
      assert.ok(object !== undefined);
      rmSync(object);
      assert.match(
        (await expect(502, `GET ${path}/bootstrap`)).text,
        new RegExp(`^an object .*/${bucket}/.* is missing`),
      );
      // Requests that need nothing of the object are answered.
      await expect(204, `POST ${path}`, { headers: TEXT, body: 'hot' });
      await expect(204, `PUT ${path}/snapshot/5`, { headers: TEXT, body: 'at 5' });
      assert.deepEqual(
        multipart(await expect(200, `GET ${path}/bootstrap`)).map(({ body }) => body),
        ['at 5', 'hot'],
      );
    });

    test('a purge deletes the objects of its bucket at once and counts no others', async () => {
      const bucket = freshBucket();
      const other = freshBucket();
      for (const name of ['a', 'b', 'c']) {
        for (const owner of [bucket, other]) {
          await expect(201, `PUT /${owner}/${name}`, { headers: TEXT, body: `${owner} ${name}` });
          await flush(`/${owner}/${name}`);
        }
      }
      await expect(204, `DELETE /${other}/a`);
      const before = objects().length;
      const purge = async (): Promise<unknown> =>
        JSON.parse((await expect(200, `DELETE /__svc/purge/${bucket}`, { base: server.adminUrl })).text);
      const report = (await purge()) as Record<string, unknown>;
      assert.equal(report['removed_streams'], 3);
      assert.equal(report['cold_gc_entries_reclaimed'], 3);
      assert.equal(objects().length, before - 3);
      assert(!objects().some((name) => name.includes(`/${bucket}/`)));
      assert.deepEqual(await purge(), {
        bucket,
        removed_streams: 0,
        groups_with_streams: [],
        cold_gc_entries_reclaimed: 0,
      });
      assert.equal((await expect(200, `GET /${other}/b?offset=0`)).text, `${other} b`);
    });
  },
);
