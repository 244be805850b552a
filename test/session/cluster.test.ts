// Sessions through any node of a cluster: writes are forwarded, producers take effect once, and followers of another
// node see them; when a node stops, its clients are told, and go on elsewhere.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { APPEND, CREATE, DONE, EVENT, GO_AWAY, SessionClient, SUBSCRIBE, TEXT, type Told } from './client.ts';

const MUCH = 1_000_000;

/** Asks again while the node says that it cannot answer now; a producer's repeat takes effect once. */
async function patiently(client: SessionClient, ...frame: [number, number, ...unknown[]]): Promise<Told> {
  for (;;) {
    const told = await client.ask(...frame);
    if (told.fields['retry-after'] === undefined) return told;
  }
}

/** Bodies of the events of `id`, so many bytes together. */
async function follow(client: SessionClient, id: number, bytes: number): Promise<string> {
  let text = '';
  while (text.length < bytes) {
    const event = await client.about(id);
    assert.equal(event.kind, EVENT, event.sentence);
    text += event.body;
  }
  return text;
}

test('appends through every node are one order for all, and outlive the node that took them', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    const clients = await Promise.all(cluster.ids.map((id) => SessionClient.connect(cluster.node(id).port)));
    const [first, second, third] = clients as [SessionClient, SessionClient, SessionClient];
    assert.equal((await patiently(first, CREATE, 1, 'b', 's', null, TEXT)).kind, DONE);
    for (const client of clients) client.send([SUBSCRIBE, 2, 'b', 's', MUCH, { offset: 0 }]);
    // One of the three leads the only group; the other two forward.
    const append = (client: SessionClient, producer: string, seq: number): Promise<Told> => {
      const who = { 'producer-id': producer, 'producer-epoch': 0, 'producer-seq': seq };
      return patiently(client, APPEND, 10 + seq, 'b', 's', Buffer.from(`${producer}${seq};`), { ...TEXT, ...who });
    };
    const count = 20;
    const writer = async (client: SessionClient, producer: string): Promise<void> => {
      for (let seq = 0; seq < count; seq++) assert.equal((await append(client, producer, seq)).kind, DONE);
    };
    await Promise.all([writer(first, 'a'), writer(second, 'b'), writer(third, 'c')]);
    const texts = (producer: string): string[] => Array.from({ length: count }, (_, seq) => `${producer}${seq};`);
    const bytes = ['a', 'b', 'c'].flatMap(texts).join('').length;
    const seen = await Promise.all(clients.map((client) => follow(client, 2, bytes)));
    for (const producer of ['a', 'b', 'c']) {
      assert.deepEqual(seen[0]?.match(new RegExp(`${producer}\\d+;`, 'g')), texts(producer));
    }
    assert.deepEqual(seen, Array(3).fill(seen[0]));

    const stopped = cluster.node(1).stop();
    await first.take(({ kind }) => kind === GO_AWAY);
    assert.equal(await first.ended(), 1001);
    await stopped;
    // The producer repeats its last append through another node, which knows it.
    const again = await append(second, 'a', count - 1);
    assert.equal(again.fields['producer-duplicate'], 'true');
    assert.equal((await append(second, 'a', count)).kind, DONE);
    for (const client of clients) client.destroy();
  });
});

test('a large append through a follower is not overtaken by what its session sends behind it', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    const leader = await cluster.leaderOf(0);
    const large = Buffer.alloc(100 * 1024, 'A');
    for (const id of cluster.ids.filter((one) => one !== leader)) {
      const client = await SessionClient.connect(cluster.node(id).port);
      const stream = `s${id}`;
      assert.equal((await patiently(client, CREATE, 1, 'b', stream, null, TEXT)).kind, DONE);
      const close = [null, { 'stream-closed': true }];
      client.send(
        [APPEND, 2, 'b', stream, large, TEXT],
        [APPEND, 3, 'b', stream, Buffer.from('B'), TEXT],
        [APPEND, 4, 'b', stream, large, TEXT],
        [APPEND, 5, 'b', stream, ...close],
      );
      const next = large.length + 1;
      for (const [about, offset] of [large.length, next, next + large.length, next + large.length].entries()) {
        const told = await client.about(about + 2);
        assert.deepEqual([told.kind, told.next], [DONE, offset], told.sentence);
      }
      client.destroy();
    }
  });
});
