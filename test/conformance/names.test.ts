// Names with empty segments and odd characters: one stream by every path that names it, and no two streams by one.
import assert from 'node:assert/strict';
import { JSON_TYPE, TEXT, offsetOf, serverSuite } from '../support/suite.ts';
import { Subscriber } from '../support/subscriber.ts';

/** As written after the bucket on the flat routes; the name is what they decode to. */
const NAMES = ['x', 'x/', 'x//', '/x', '/', '//', 'a//b', 'a/b', 'a/b/', 'a%20b/', '%252F', 'x%3F', '.hidden', 'a..b/'];
const REFUSED = ['', '..', 'a/..', 'a//..', '..%2F', 'x%00', '%2e%2e//x'];

serverSuite('names of streams', { cores: 1, groups: 4 }, ({ server, test, expect, freshBucket }) => {
  test('are the same on both families, in lists, locations and forks', async () => {
    const bucket = freshBucket();
    for (const name of NAMES) {
      const flat = `/v1/stream/${bucket}/${name}`;
      const bucketed = `/${bucket}/${encodeURIComponent(decodeURIComponent(name))}`;
      const created = await expect(201, `PUT ${flat}`, { headers: TEXT, body: name });
      const location = new URL(created.headers.get('location') ?? '', server.url).pathname;
      assert.equal(location, flat);
      assert.equal((await expect(200, `GET ${location}?offset=-1`)).text, name);
      assert.equal((await expect(200, `PUT ${bucketed}`, { headers: TEXT })).headers.get('location'), bucketed);
      await expect(204, `POST ${bucketed}`, { headers: TEXT, body: '!' });
      assert.equal(offsetOf(await expect(200, `HEAD ${flat}`)), name.length + 1);
      for (const source of [flat, bucketed]) {
        const fork = `/v1/stream/${freshBucket()}/${name}`;
        await expect(201, `PUT ${fork}`, { headers: { ...TEXT, 'Stream-Forked-From': source } });
        assert.equal((await expect(200, `GET ${fork}`)).text, `${name}!`);
      }
    }
    const { streams } = JSON.parse((await expect(200, `GET /${bucket}/streams`)).text) as {
      streams: readonly { readonly stream_id: string }[];
    };
    assert.deepEqual(streams.map((row) => row.stream_id).sort(), NAMES.map((name) => decodeURIComponent(name)).sort());
    for (const name of NAMES) {
      await expect(204, `DELETE /v1/stream/${bucket}/${name}`);
      await expect(410, `HEAD /${bucket}/${encodeURIComponent(decodeURIComponent(name))}`);
    }
  });

  test('that are empty or would climb are refused', async () => {
    const bucket = freshBucket();
    for (const name of REFUSED) {
      const path = `/v1/stream/${bucket}/${name}`;
      // fetch resolves dot segments before it sends; those are a matter of the parser's own test.
      if (new URL(path, server.url).pathname !== path) continue;
      for (const method of ['PUT', 'POST', 'GET', 'DELETE']) await expect(400, `${method} ${path}`, { headers: TEXT });
      await expect(400, `PUT /${bucket}/f`, { headers: { ...TEXT, 'Stream-Forked-From': path } });
    }
  });

  test('travel through subscriptions', async () => {
    const bucket = freshBucket();
    const subs = new Subscriber(() => server.url);
    await expect(201, 'PUT /wakes/all', { headers: JSON_TYPE });
    const paths = [`${bucket}/x`, `${bucket}/x/`, `${bucket}/a//b`, `${bucket}/a/b/`];
    for (const path of paths) await subs.create(path);
    const config = {
      type: 'pull-wake',
      wake_stream: 'wakes/all',
      pattern: `${bucket}/a/*/`,
      streams: paths.slice(0, 3),
    };
    const linked = async (): Promise<string[]> =>
      (await subs.shown(bucket)).streams.map(({ path, link_type }) => `${link_type} ${path}`).sort();
    await subs.subscribe(bucket, config);
    assert.deepEqual(await linked(), [
      `explicit ${bucket}/a//b`,
      `explicit ${bucket}/x`,
      `explicit ${bucket}/x/`,
      `glob ${bucket}/a/b/`,
    ]);
    await subs.append(`${bucket}/x/`);
    const claimed = await subs.claim(bucket, 'worker');
    assert.deepEqual(
      claimed.streams.filter((stream) => stream.has_pending).map((stream) => stream.path),
      [`${bucket}/x/`],
    );
    await subs.ack(bucket, claimed, { acks: [{ stream: `${bucket}/x/`, offset: claimed.streams[0]?.tail_offset }] });
    await subs.expect(204, 'DELETE', `__ds/subscriptions/${bucket}/streams/${bucket}/x/`);
    assert(!(await linked()).includes(`explicit ${bucket}/x/`));
    assert((await linked()).includes(`explicit ${bucket}/x`));
  });
});
