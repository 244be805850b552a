// A JSON body that is checked in the pool and does not fit into a frame afterwards comes back as it was sent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READ_BYTES_MAX } from '../../src/base/limits.ts';
import { withServer } from '../support/server.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const RECORD = { text: 'x'.repeat(1000) };

test('records of a body that leaves the pool large are all there', async () => {
  await withServer({ cores: 1, groups: 1 }, async ({ client }) => {
    assert.equal((await client.request('PUT', '/large/records', JSON_TYPE)).status, 201);
    for (const count of [300, 900]) {
      const records = Array.from({ length: count }, (_, n) => ({ n, ...RECORD }));
      const before = (await client.request('HEAD', '/large/records')).headers.get('stream-next-offset') ?? '';
      const appended = await client.request('POST', '/large/records', JSON_TYPE, JSON.stringify(records));
      assert.equal(appended.status, 204);
      const read = await client.request('GET', `/large/records?offset=${before}&max_bytes=${READ_BYTES_MAX}`);
      assert.deepEqual(JSON.parse(read.body.toString()), records);
    }
  });
});
