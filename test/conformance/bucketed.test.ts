// The bucketed routes as src/http/README.md promises them: create, append, close, delete, producers.
import assert from 'node:assert/strict';
import { assertHeaders, JSON_TYPE, offsetOf, producer, serverSuite, TEXT } from '../support/suite.ts';

const CLOSE = { 'Stream-Closed': 'true' } as const;

serverSuite('bucketed routes: create', { cores: 1 }, ({ test, expect, ask, freshBucket }) => {
  test('a create answers 201 with its headers, a repetition 200', async () => {
    const path = `/${freshBucket()}/s`;
    const created = await expect(201, `PUT ${path}`, { headers: TEXT });
    assertHeaders(created, { location: path, 'content-type': 'text/plain', etag: null, 'stream-closed': null });
    assert.equal(offsetOf(created), 0);
    assert.equal(offsetOf(await expect(200, `PUT ${path}`, { headers: TEXT })), 0);
    assert.equal(offsetOf(await expect(200, `PUT ${path}`, { headers: { 'Content-Type': 'Text/PLAIN' } })), 0);
  });

  test('a body on create becomes the first entry, and is not appended again by a repetition', async () => {
    const path = `/${freshBucket()}/s`;
    assert.equal(offsetOf(await expect(201, `PUT ${path}`, { headers: TEXT, body: 'first' })), 5);
    assert.equal(offsetOf(await expect(200, `PUT ${path}`, { headers: TEXT, body: 'first' })), 5);
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, 'first');
  });

  test('another configuration is a conflict', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/plain`, { headers: TEXT });
    await expect(409, `PUT /${bucket}/plain`, { headers: JSON_TYPE });
    await expect(409, `PUT /${bucket}/plain`, { headers: { 'Content-Type': 'text/plain; charset=utf-8' } });
    await expect(409, `PUT /${bucket}/plain`, { headers: { ...TEXT, ...CLOSE } });
    await expect(409, `PUT /${bucket}/plain`, { headers: { ...TEXT, 'Stream-TTL': '60' } });
    await expect(409, `PUT /${bucket}/plain`, { headers: { ...TEXT, 'Stream-Attrs': '{"title":"x"}' } });
    const ttl = { ...TEXT, 'Stream-TTL': '600' };
    assertHeaders(await expect(201, `PUT /${bucket}/ttl`, { headers: ttl }), { 'stream-ttl': '600' });
    assertHeaders(await expect(200, `PUT /${bucket}/ttl`, { headers: ttl }), { 'stream-ttl': '600' });
    await expect(409, `PUT /${bucket}/ttl`, { headers: { ...TEXT, 'Stream-TTL': '601' } });
    await expect(409, `PUT /${bucket}/ttl`, { headers: TEXT });
    const attrs = { ...TEXT, 'Stream-Attrs': '{"title":"x","metadata":{"k":[1]}}' };
    await expect(201, `PUT /${bucket}/attrs-given`, { headers: attrs });
    await expect(200, `PUT /${bucket}/attrs-given`, { headers: attrs });
    await expect(409, `PUT /${bucket}/attrs-given`, { headers: TEXT });
    await expect(409, `PUT /${bucket}/attrs-given`, { headers: { ...TEXT, 'Stream-Attrs': '{"title":"y"}' } });
  });

  test('Stream-Attrs holds as much as the attributes may have, and 400 says so beyond that', async () => {
    const path = `/${freshBucket()}/s`;
    const attrs = (bytes: number): Record<string, string> => ({
      ...TEXT,
      'Stream-Attrs': `{"title":"${'x'.repeat(bytes - 12)}"}`,
    });
    for (const bytes of [16_385, 32_768]) await expect(400, `PUT ${path}`, { headers: attrs(bytes) });
    await expect(201, `PUT ${path}`, { headers: attrs(16_384) });
    assert.equal((await expect(200, `GET ${path}/attrs`)).text.length, 16_384);
    assert.equal((await ask(`PUT ${path}`, { headers: attrs(50_000) })).status, 431);
  });

  test('Stream-Expires-At comes back as the same moment', async () => {
    const path = `/${freshBucket()}/s`;
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const created = await expect(201, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Expires-At': at } });
    assert.equal(Date.parse(created.headers.get('stream-expires-at') ?? ''), Date.parse(at));
    await expect(200, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Expires-At': at } });
    const other = new Date(Date.parse(at) + 1000).toISOString();
    await expect(409, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Expires-At': other } });
  });

  test('malformed creates are 400 with a sentence and make nothing', async () => {
    const bucket = freshBucket();
    const bad: readonly Record<string, string>[] = [
      ...['007', '-1', '1.5', 'abc', '9007199254740992', '1e3', '+5'].map((ttl) => ({ ...TEXT, 'Stream-TTL': ttl })),
      ...['tomorrow', '2026-13-01T00:00:00Z', '12345', '2026-01-01'].map((at) => ({
        ...TEXT,
        'Stream-Expires-At': at,
      })),
      { ...TEXT, 'Stream-TTL': '5', 'Stream-Expires-At': '2099-01-01T00:00:00Z' },
      ...['{', '[]', '5', '{"title":5}', '{"metadata":[]}'].map((attrs) => ({ ...TEXT, 'Stream-Attrs': attrs })),
      { ...TEXT, 'Producer-Id': 'p' },
      { ...TEXT, ...producer('p', 0, '9007199254740992') },
      { ...TEXT, ...producer('p', '-1', 0) },
    ];
    for (const headers of bad) await expect(400, `PUT /${bucket}/bad`, { headers });
    await expect(400, `PUT /${bucket}/bad`, { headers: JSON_TYPE, body: '{"a":' });
    for (const name of ['%00', 'a%00b', 'a%2f..%2fb', '%ff', '%zz', 'n'.repeat(1100)]) {
      const { status } = await ask(`PUT /${bucket}/${name}`, { headers: TEXT });
      assert.equal(status, 400, `PUT /${bucket}/${name}`);
    }
    await expect(400, 'PUT /v1/s', { headers: TEXT });
    await expect(400, 'PUT /__other/s', { headers: TEXT });
    assert.equal((await ask(`HEAD /${bucket}/bad`)).status, 404);
  });

  test('Stream-Closed on create closes at once', async () => {
    const path = `/${freshBucket()}/s`;
    const headers = { ...TEXT, ...CLOSE };
    assertHeaders(await expect(201, `PUT ${path}`, { headers, body: 'all' }), { 'stream-closed': 'true' });
    assertHeaders(await expect(200, `PUT ${path}`, { headers }), { 'stream-closed': 'true' });
    await expect(409, `PUT ${path}`, { headers: TEXT });
    assertHeaders(await expect(409, `POST ${path}`, { headers: TEXT, body: 'x' }), { 'stream-closed': 'true' });
  });

  test('Stream-Seq on create is stored, and must grow on an existing stream', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Seq': 'b' } });
    await expect(409, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Seq': 'b' } });
    await expect(409, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Seq': 'a' } });
    await expect(409, `POST ${path}`, { headers: { ...TEXT, 'Stream-Seq': 'b' }, body: 'x' });
    await expect(204, `POST ${path}`, { headers: { ...TEXT, 'Stream-Seq': 'c' }, body: 'x' });
  });

  test('without a content type the first append with a body sets it', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`);
    assertHeaders(await expect(200, `HEAD ${path}`), { 'content-type': 'application/octet-stream' });
    await expect(204, `POST ${path}`, { headers: TEXT, body: 'x' });
    assertHeaders(await expect(200, `HEAD ${path}`), { 'content-type': 'text/plain' });
    await expect(400, `POST ${path}`, { headers: JSON_TYPE, body: '1' });
  });
});

serverSuite('bucketed routes: append, close, delete', { cores: 2 }, ({ test, expect, freshBucket }) => {
  test('a plain append is 204 with the next offset and no ETag', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const first = await expect(204, `POST ${path}`, { headers: TEXT, body: 'hello ' });
    assertHeaders(first, { etag: null, 'stream-closed': null });
    assert.equal(offsetOf(first), 6);
    assert.equal(
      offsetOf(await expect(204, `POST ${path}`, { headers: { 'Content-Type': 'TEXT/Plain' }, body: 'world' })),
      11,
    );
    assert.equal((await expect(200, `GET ${path}`)).text, 'hello world');
  });

  test('what an append must bring', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(404, `POST ${path}`, { headers: TEXT, body: 'x' });
    await expect(201, `PUT ${path}`, { headers: TEXT });
    await expect(400, `POST ${path}`, { headers: TEXT });
    await expect(400, `POST ${path}`, { body: 'x' });
    await expect(400, `POST ${path}`, { headers: { 'Content-Type': 'text/html' }, body: 'x' });
    await expect(400, `POST ${path}`, { headers: JSON_TYPE, body: '1' });
    await expect(409, `POST /v1/stream${path}`, { headers: { 'Content-Type': 'text/html' }, body: 'x' });
    assert.equal(offsetOf(await expect(200, `HEAD ${path}`)), 0);
  });

  test('a malformed numeric header is 400 before anything else is looked at', async () => {
    const path = `/${freshBucket()}/absent`;
    for (const value of ['-1', '1.5', '9007199254740992', '18446744073709551616', '1e3', 'x', '+1']) {
      await expect(400, `POST ${path}`, { headers: { ...TEXT, ...producer('p', value, 0) }, body: 'x' });
      await expect(400, `POST ${path}`, { headers: { ...TEXT, ...producer('p', 0, value) }, body: 'x' });
      await expect(400, `POST ${path}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': value }, body: '1' });
    }
  });

  test('Stream-Seq grows lexicographically', async () => {
    const path = `/${freshBucket()}/s`;
    const append = (seq: string, status: number): Promise<unknown> =>
      expect(status, `POST ${path}`, { headers: { ...TEXT, 'Stream-Seq': seq }, body: 'x' });
    await expect(201, `PUT ${path}`, { headers: TEXT });
    await append('10', 204);
    await append('10', 409);
    await append('9', 204);
    await append('10', 409);
    await append('90', 204);
    await expect(204, `POST ${path}`, { headers: TEXT, body: 'without' });
    await append('9', 409);
  });

  test('closing: with the last bytes, alone, twice', async () => {
    const bucket = freshBucket();
    const [withBytes, alone] = [`/${bucket}/with-bytes`, `/${bucket}/alone`];
    await expect(201, `PUT ${withBytes}`, { headers: TEXT });
    const last = await expect(204, `POST ${withBytes}`, { headers: { ...TEXT, ...CLOSE }, body: 'end' });
    assertHeaders(last, { 'stream-closed': 'true' });
    assert.equal(offsetOf(last), 3);
    const refused = await expect(409, `POST ${withBytes}`, { headers: TEXT, body: 'more' });
    assertHeaders(refused, { 'stream-closed': 'true' });
    assert.equal(offsetOf(refused), 3);
    await expect(201, `PUT ${alone}`, { headers: TEXT });
    assertHeaders(await expect(204, `POST ${alone}`, { headers: CLOSE }), { 'stream-closed': 'true' });
    assertHeaders(await expect(409, `POST ${alone}`, { headers: CLOSE }), { 'stream-closed': 'true' });
    assertHeaders(await expect(204, `POST /v1/stream${alone}`, { headers: CLOSE }), { 'stream-closed': 'true' });
    assertHeaders(await expect(200, `HEAD ${alone}`), { 'stream-closed': 'true' });
  });

  test('DELETE, then everything is 404, then a new stream begins at zero', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(404, `DELETE ${path}`);
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'old' });
    await expect(200, `POST ${path}`, { headers: { ...TEXT, ...producer('p', 3, 0), 'Stream-Seq': 'z' }, body: '!' });
    await expect(204, `DELETE ${path}`);
    for (const target of [`GET ${path}`, `HEAD ${path}`, `DELETE ${path}`, `GET ${path}/attrs`])
      await expect(404, target);
    await expect(404, `POST ${path}`, { headers: TEXT, body: 'x' });
    assert.equal(offsetOf(await expect(201, `PUT ${path}`, { headers: JSON_TYPE })), 0);
    await expect(200, `POST ${path}`, {
      headers: { ...JSON_TYPE, ...producer('p', 0, 0), 'Stream-Seq': 'a' },
      body: '1',
    });
    assert.equal((await expect(200, `GET ${path}`)).text, '[1]');
  });

  test('one stream through both families, slashes included', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /v1/stream/${bucket}/a/b`, { headers: TEXT, body: 'both' });
    assert.equal((await expect(200, `GET /${bucket}/a%2Fb`)).text, 'both');
    const created = await expect(201, `PUT /${bucket}/c%2Fd`, { headers: TEXT, body: 'ways' });
    assert.equal(offsetOf(created), 4);
    assert.equal((await expect(200, `GET /v1/stream/${bucket}/c/d`)).text, 'ways');
    await expect(201, `PUT /v1/stream/${bucket}/streams`, { headers: TEXT, body: 'reachable' });
    assert.equal((await expect(200, `GET /v1/stream/${bucket}/streams?offset=-1`)).text, 'reachable');
    const flat = await expect(201, 'PUT /v1/stream/alone', { headers: TEXT });
    assert.match(flat.headers.get('location') ?? '', /^http:\/\/.*\/v1\/stream\/alone$/);
    await expect(200, 'HEAD /_default/alone');
  });
});

serverSuite('bucketed routes: producers', { cores: 1 }, ({ test, expect, freshBucket }) => {
  const open = async (): Promise<string> => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    return path;
  };
  const post = (
    path: string,
    epoch: number,
    seq: number,
    status: number,
    extra: Record<string, string> = {},
    body = 'abc',
  ) => expect(status, `POST ${path}`, { headers: { ...TEXT, ...producer('w', epoch, seq), ...extra }, body });

  test('accepted 200, duplicate 204, gap 409, stale epoch 409, new epoch from 0', async () => {
    const path = await open();
    const accepted = await post(path, 0, 0, 200);
    assertHeaders(accepted, { 'producer-epoch': '0', 'producer-seq': '0' });
    assert.equal(offsetOf(accepted), 3);
    assert.equal(offsetOf(await post(path, 0, 0, 204)), 3);
    assertHeaders(await post(path, 0, 2, 409), { 'producer-expected-seq': '1', 'producer-received-seq': '2' });
    assert.equal(offsetOf(await post(path, 0, 1, 200)), 6);
    await post(path, 1, 5, 400);
    assertHeaders(await post(path, 1, 0, 200), { 'producer-epoch': '1', 'producer-seq': '0' });
    assertHeaders(await post(path, 0, 2, 409), { 'producer-epoch': '1' });
    assertHeaders(await post(`/v1/stream${path}`, 0, 2, 403), { 'producer-epoch': '1' });
    assert.equal((await expect(200, `GET ${path}`)).text, 'abcabcabc');
  });

  test('the largest numbers, and one more', async () => {
    const path = await open();
    const max = Number.MAX_SAFE_INTEGER;
    assertHeaders(await post(path, max, 0, 200), { 'producer-epoch': String(max) });
    await expect(400, `POST ${path}`, { headers: { ...TEXT, ...producer('w', '9007199254740992', 0) }, body: 'x' });
    assertHeaders(await post(path, max, max, 409), {
      'producer-expected-seq': '1',
      'producer-received-seq': String(max),
    });
  });

  test('an unknown producer starts at 0', async () => {
    const path = await open();
    assertHeaders(await post(path, 0, 3, 409), { 'producer-expected-seq': '0', 'producer-received-seq': '3' });
    await post(path, 7, 0, 200);
  });

  test('incomplete or empty producer headers are 400', async () => {
    const path = await open();
    const all = producer('w', 0, 0);
    for (const missing of Object.keys(all)) {
      const headers = Object.fromEntries(Object.entries(all).filter(([name]) => name !== missing));
      await expect(400, `POST ${path}`, { headers: { ...TEXT, ...headers }, body: 'x' });
    }
    await expect(400, `POST ${path}`, { headers: { ...TEXT, ...producer(' ', 0, 0) }, body: 'x' });
  });

  test('an old sequence replayed after newer ones, and after the close, is still a duplicate', async () => {
    const path = await open();
    for (let seq = 0; seq < 20; seq++) await post(path, 0, seq, 200);
    for (const seq of [19, 15, 10, 0]) await post(path, 0, seq, 204);
    const close = { headers: { ...producer('w', 0, 20), ...CLOSE } };
    assertHeaders(await expect(200, `POST ${path}`, close), {
      'stream-closed': 'true',
      'producer-epoch': '0',
      'producer-seq': '20',
    });
    assertHeaders(await expect(204, `POST ${path}`, close), { 'stream-closed': 'true' });
    await post(path, 0, 19, 204);
    assertHeaders(await post(path, 0, 21, 409), { 'stream-closed': 'true' });
    assert.equal(offsetOf(await expect(200, `HEAD ${path}`)), 60);
  });

  test('on the flat route the accepted close-only POST of a producer is 204', async () => {
    const path = await open();
    const close = await expect(204, `POST /v1/stream${path}`, { headers: { ...producer('w', 0, 0), ...CLOSE } });
    assertHeaders(close, { 'stream-closed': 'true' });
  });

  test('producers do not know each other', async () => {
    const path = await open();
    await post(path, 0, 0, 200);
    await expect(200, `POST ${path}`, { headers: { ...TEXT, ...producer('other', 0, 0) }, body: 'x' });
    await post(path, 0, 1, 200);
  });
});
