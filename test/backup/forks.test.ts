// A backup keeps forks: what they hold, which names they keep, and that these become free when they go.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/until.ts';
import { requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';

const GROUPS = 4;
const TEXT = { 'content-type': 'text/plain' };
const OPTIONS = { cores: 1, groups: GROUPS };
const CHAIN = Array.from({ length: 6 }, (_, i) => `/b/link-${i}`);
const FORKS = Array.from({ length: 6 }, (_, i) => `/b/fork-${i}`);

async function call(server: TestServer, method: string, path: string, headers = {}, body = ''): Promise<number> {
  return (await requestOnce(server.port, method, path, headers, Buffer.from(body))).status;
}

async function exportAll(server: TestServer): Promise<Buffer[]> {
  const documents: Buffer[] = [];
  for (let group = 0; group < GROUPS; group++) {
    const answer = await requestOnce(server.adminPort, 'GET', `/__svc/backup/group/${group}`);
    assert.equal(answer.status, 200);
    documents.push(answer.body);
  }
  return documents;
}

async function importAll(server: TestServer, documents: readonly Buffer[]): Promise<void> {
  for (const [group, document] of documents.entries()) {
    const answer = await requestOnce(server.adminPort, 'POST', `/__svc/backup/group/${group}/import`, {}, document);
    assert.equal(answer.status, 200, answer.body.toString());
  }
}

/** A chain of which only the last lives, and forks of a stream that lives. */
async function fill(server: TestServer): Promise<void> {
  assert.equal(await call(server, 'PUT', CHAIN[0] as string, TEXT, '0'), 201);
  for (let i = 1; i < CHAIN.length; i++) {
    assert.equal(
      await call(server, 'PUT', CHAIN[i] as string, { ...TEXT, 'stream-forked-from': CHAIN[i - 1] }, `${i}`),
      201,
    );
  }
  for (const name of CHAIN.slice(0, -1)) assert.equal(await call(server, 'DELETE', name), 204);
  assert.equal(await call(server, 'PUT', '/b/source', TEXT, 'kept'), 201);
  for (const name of FORKS) assert.equal(await call(server, 'PUT', name, { 'stream-forked-from': '/b/source' }), 201);
}

test('forks, and what is left of their sources, come back from a backup and go on', async () => {
  let documents: Buffer[] = [];
  await withServer(OPTIONS, async (server) => {
    await fill(server);
    documents = await exportAll(server);
  });
  await withServer(OPTIONS, async (server) => {
    await importAll(server, documents);
    for (const name of CHAIN.slice(0, -1)) {
      assert.equal(await call(server, 'HEAD', name), 410);
      assert.equal(await call(server, 'PUT', name, TEXT), 409);
    }
    const last = CHAIN.at(-1) as string;
    const read = await requestOnce(server.port, 'GET', `${last}?offset=-1`);
    assert.equal(read.body.toString(), '012345');
    const again = { ...TEXT, 'stream-forked-from': CHAIN.at(-2) as string };
    assert.equal(await call(server, 'PUT', last, again), 200, 'the same PUT');
    assert.equal(await call(server, 'DELETE', last), 204);
    for (const name of CHAIN) await until(`${name} is gone`, async () => (await call(server, 'HEAD', name)) === 404);
    assert.equal(await call(server, 'DELETE', '/b/source'), 204);
    for (const name of FORKS) {
      assert.equal(await call(server, 'HEAD', '/b/source'), 410);
      assert.equal(await call(server, 'DELETE', name), 204);
    }
    await until('the source is gone', async () => (await call(server, 'HEAD', '/b/source')) === 404);
  });
});
