// A single node whose disk changed a row about a whole group: that group is refused, the others are served, and with
// the row as it was written everything is there.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { Environment } from '../../src/store/environment.ts';
import { prefixKey } from '../../src/store/rows.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';

const TEXT = { 'content-type': 'text/plain' };
const GROUPS = 2;
const NAMES = Array.from({ length: 8 }, (_, i) => `stream-${i}`);

async function flipMeta({ dataDir }: TestServer, group: number): Promise<void> {
  const environment = new Environment(join(dataDir, 'shard-0'));
  environment.commit(() => {
    const key = Uint8Array.of(...prefixKey(group), TAG.meta);
    const stored = Uint8Array.from(environment.state.getBinary(key) ?? assert.fail('the group has the row'));
    stored[9] = (stored[9] ?? 0) ^ 1;
    environment.state.putSync(key, stored);
  });
  await environment.close();
}

/** The bytes of each stream, or the code of its refusal. */
async function contents(server: TestServer): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of NAMES) {
    const answer = await requestOnce(server.port, 'GET', `/bucket/${name}?offset=0`, {}, Buffer.alloc(0));
    found.push(answer.headers.get('millrace-error') ?? answer.body.toString());
  }
  return found;
}

test('a group that a start cannot open is refused, in reads and writes, and the others are served', async () => {
  await withServer({ groups: GROUPS, cores: 1 }, async (server) => {
    for (const name of NAMES) {
      await server.client.create(`/bucket/${name}`, TEXT);
      await server.client.append(`/bucket/${name}`, TEXT, `${name};`);
    }
    await server.stop();
    await flipMeta(server, 0);
    await server.start('health');
    await server.logged(/row 00006d of the state is damaged.*the group is not opened on this node/);
    const shown = await contents(server);
    const refused = NAMES.filter((_, i) => shown[i] === 'ROW_DAMAGED');
    assert(refused.length > 0 && refused.length < NAMES.length, shown.join(' '));
    assert.deepEqual(
      shown,
      NAMES.map((name) => (refused.includes(name) ? 'ROW_DAMAGED' : `${name};`)),
    );
    for (const name of NAMES) {
      const answer = await requestOnce(server.port, 'POST', `/bucket/${name}`, TEXT, Buffer.from('more;'));
      assert.equal(answer.status, refused.includes(name) ? 503 : 204, answer.body.toString());
    }
    await server.stop();
    await flipMeta(server, 0);
    await server.start();
    assert.deepEqual(
      await contents(server),
      NAMES.map((name) => (refused.includes(name) ? `${name};` : `${name};more;`)),
    );
  });
});
