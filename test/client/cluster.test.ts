// The client of a cluster whose nodes stop and come back one after the other, so that leaders change: what it appended
// meanwhile is there once and in order, and followers through any node saw all of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect } from '../../src/client/client.ts';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const STREAMS = 4;
const TEXT = { contentType: 'text/plain' };

test('a rolling restart loses nothing, repeats nothing and surfaces nothing', async () => {
  const urls = new Map<number, string>();
  const server = (id: number): string => (urls.has(id) ? `public_url = "${urls.get(id)}"` : '');
  await withCluster({ groups: 4, server }, async (cluster) => {
    // Their ports are known now, so they say from their restart on where clients reach them.
    for (const id of cluster.ids) urls.set(id, cluster.node(id).url);
    for (const id of cluster.ids) cluster.configure(id);
    const client = connect(cluster.ids.map((id) => cluster.node(id).url));
    const streams = Array.from({ length: STREAMS }, (_, i) => client.stream('b', `s${i}`, TEXT));
    await Promise.all(streams.map((stream) => stream.create(TEXT)));
    let isOver = false;
    const written: string[] = [];
    const writers = streams.map(async (stream, i) => {
      let text = '';
      for (let n = 0; !isOver; n++) {
        const pieces = [`${n}a;`, `${n}b;`];
        const offsets = await Promise.all(pieces.map((piece) => stream.append(piece)));
        text += pieces.join('');
        assert.equal(offsets[1], text.length);
        written[i] = text;
      }
      await stream.close();
      return text;
    });
    const followers = streams.map(async (stream) => {
      let text = '';
      for await (const { data, offset } of stream.follow()) {
        text += Buffer.from(data).toString();
        assert.equal(offset, text.length);
      }
      return text;
    });
    for (const id of cluster.ids) {
      await cluster.end(id);
      const before = written.map((text) => text.length);
      await until('appends without that node', () => written.every((text, i) => text.length > (before[i] ?? 0)));
      await cluster.restart(id);
      await cluster.ready();
    }
    await until('appends go to the nodes that lead their streams', async () => {
      const sessions = await Promise.all(
        cluster.ids.map(async (id) => Number((await cluster.metrics(id))['sessions'])),
      );
      return sessions.filter((count) => count > 0).length > 1;
    });
    isOver = true;
    const texts = await Promise.all(writers);
    assert.deepEqual(await Promise.all(followers), texts);
    client.close();
  });
});
