// A page of data.mdb that cannot be read: in a cluster the others restore the groups whose rows lay there, a single node
// refuses them alone.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tearLeaf } from '../store/torn-leaf.ts';
import { withCluster } from '../support/cluster.ts';
import { requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';

const TEXT = { 'content-type': 'text/plain' };
const [GROUPS, STREAMS] = [6, 40];
const NAMES = Array.from({ length: STREAMS }, (_, i) => `stream-${i}`);
const BODY = 'x'.repeat(700);

async function fill({ client }: TestServer): Promise<void> {
  for (const name of NAMES) {
    await client.request('PUT', `/torn/${name}`, TEXT);
    await client.append(`/torn/${name}`, TEXT, `${name} ${BODY};`);
  }
}

test('a node of three restores the groups of a page that cannot be read, and all without meta pages', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const node = cluster.node(2);
    await fill(cluster.node(1));
    await cluster.settled();
    await cluster.end(2);
    tearLeaf(join(node.dataDir, 'shard-0', 'data.mdb'), 3);
    await cluster.restart(2);
    const said = await node.logged(/pages of the state could not be read/);
    const { torn, aside } = JSON.parse(said.slice(said.indexOf('{'))) as { torn: number[]; aside: string };
    assert(torn.includes(3) && torn.length < GROUPS, torn.join());
    assert(readdirSync(join(node.dataDir, 'shard-0')).includes(aside));
    await cluster.ready();
    await cluster.settled();
    // Its votes and its bytes count again.
    await cluster.end(1);
    await cluster.ready([2, 3]);
    for (const name of NAMES) {
      await node.client.append(`/torn/${name}`, TEXT, 'more;');
      const { body } = await node.client.expect(200, 'GET', `/torn/${name}?offset=0`);
      assert.equal(body.toString(), `${name} ${BODY};more;`);
    }
    await cluster.restart(1);
    await cluster.ready();
    await cluster.settled();
    await cluster.end(2);
    const file = join(node.dataDir, 'shard-0', 'data.mdb');
    writeFileSync(file, readFileSync(file).fill(0, 0, 2 * 4096));
    await cluster.restart(2);
    await node.logged(/the log is damaged: the other nodes restore this shard/);
    assert(readdirSync(join(node.dataDir, 'shard-0')).includes('data.mdb.damaged-2'));
    await cluster.ready();
    await cluster.settled();
    await cluster.end(3);
    await cluster.ready([1, 2]);
    for (const name of NAMES) {
      const { body } = await node.client.expect(200, 'GET', `/torn/${name}?offset=0`);
      assert.equal(body.toString(), `${name} ${BODY};more;`);
      await node.client.append(`/torn/${name}`, TEXT, 'again;');
    }
  });
});

test('a single node refuses the groups of such a page in words, and serves the others', async () => {
  await withServer({ groups: GROUPS, cores: 1 }, async (server) => {
    await fill(server);
    await server.stop();
    tearLeaf(join(server.dataDir, 'shard-0', 'data.mdb'), 2);
    for (let i = 0; i < 2; i++) {
      await server.start('health');
      let refused = 0;
      for (const name of NAMES) {
        const answer = await requestOnce(server.port, 'GET', `/torn/${name}?offset=0`, {}, Buffer.alloc(0));
        if (answer.status === 200) assert.equal(answer.body.toString(), `${name} ${BODY};`);
        else assert.equal(answer.headers.get('millrace-error'), 'ROW_DAMAGED');
        if (answer.status !== 200) refused++;
      }
      assert(refused > 0 && refused < STREAMS, `${refused} of ${STREAMS}`);
      await server.stop();
    }
  });
});
