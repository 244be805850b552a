// Reads through other nodes than the one that acknowledged, and through one that has just started again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { withCluster } from '../support/cluster.ts';

type Two = [RawClient, RawClient];
const TEXT = { 'Content-Type': 'text/plain' } as const;

test('a reader that moves to another node meets neither 404 nor 416 for what was acknowledged', async () => {
  await withCluster({ groups: 4 }, async (cluster) => {
    const clients = await Promise.all(cluster.ids.map((id) => RawClient.connect(cluster.node(id).port)));
    let served = 0;
    /** Without a leader for long (the machine may be slow) a node says that it cannot say. */
    const expect200 = async (client: RawClient, method: string, path: string): Promise<void> => {
      const answer = await client.request(method, path);
      if (answer.status === 200) served++;
      else assert.equal(answer.status, 503, `${answer.status} for ${method} ${path}`);
    };
    for (let i = 0; i < 30; i++) {
      const [one, two] = [1, 2].map((step) => clients[(i + step) % 3] as RawClient) as Two;
      const writer = cluster.client(1 + (i % 3));
      const path = `/moving/s${i}`;
      await writer.create(path, TEXT);
      await expect200(one, 'HEAD', path);
      const offset = (await writer.append(path, TEXT, 'hello')).headers.get('stream-next-offset');
      await expect200(two, 'GET', `${path}?offset=${offset}`);
      await expect200(one, 'GET', `${path}?offset=${offset}`);
    }
    assert(served >= 45, `${served} of 90`);
    for (const client of clients) client.destroy();
  });
});

test('a node that was killed and starts again shows what it acknowledged, or says that it does not yet', async () => {
  await withCluster({ process: true, groups: 4 }, async (cluster) => {
    let shown = 0;
    for (const [round, id] of cluster.ids.entries()) {
      const writer = cluster.client(id);
      const paths = Array.from({ length: 8 }, (_, i) => `/again/r${round}-${i}`);
      for (const path of paths) await writer.create(path, TEXT, 'first;');
      for (const path of paths) await writer.append(path, TEXT, 'second;');
      await cluster.kill(id);
      await cluster.restart(id);
      const reader = await RawClient.connect(cluster.node(id).port);
      for (const path of paths) {
        const answer = await reader.request('GET', `${path}?offset=-1`);
        if (answer.status === 503) assert.equal(answer.headers.get('retry-after'), '1');
        else {
          assert.equal(answer.status, 200, path);
          assert.equal(answer.body.toString(), 'first;second;', path);
          shown++;
        }
      }
      reader.destroy();
      await cluster.ready();
    }
    assert(shown > 0, 'a leader is there, so it catches up within the five seconds');
  });
});
