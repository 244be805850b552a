// Conditional writes, bodies with a coding, and what HEAD and OPTIONS say for them.
import assert from 'node:assert/strict';
import { type Answer, JSON_TYPE, TEXT, assertHeaders, offsetOf, producer, serverSuite } from '../support/suite.ts';

const CLOSE = { 'Stream-Closed': 'true' } as const;
const etagOf = (answer: Answer): string => {
  const etag = answer.headers.get('etag') ?? '';
  assert.match(etag, /^"[0-9a-f]{16}"$/);
  return etag;
};

const statusesOf = (answers: readonly Answer[]): number[] =>
  answers.map((answer) => answer.status).sort((a, b) => a - b);

serverSuite('conditional writes', { cores: 2, groups: 4 }, ({ test, expect, ask, freshBucket }) => {
  test('an append with If-Match goes to the state that its writer has seen, on both families', async () => {
    const bucket = freshBucket();
    for (const path of [`/${bucket}/a`, `/v1/stream/${bucket}/b`]) {
      await expect(201, `PUT ${path}`, { headers: TEXT, body: 'one' });
      const first = etagOf(await expect(200, `HEAD ${path}`));
      assert.equal(etagOf(await expect(200, `GET ${path}`)), first, 'the tag of the whole stream');
      const write = (match: string): Promise<Answer> =>
        ask(`POST ${path}`, { headers: { ...TEXT, 'If-Match': match }, body: 'two' });
      assert.equal((await write(first)).status, 204);
      const refused = await write(first);
      assert.equal(refused.status, 412);
      assertHeaders(refused, { 'millrace-error': 'PRECONDITION_FAILED', 'stream-next-offset': '0'.repeat(19) + '6' });
      const second = etagOf(await expect(200, `HEAD ${path}`));
      assert(refused.text.includes(second), refused.text);
      for (const match of ['"0123456789abcdef"', `W/${second}`, 'x', '', first])
        assert.equal((await write(match)).status, 412);
      for (const match of [`"x", ${second}`, '*']) assert.equal((await write(match)).status, 204);
      await expect(400, `POST ${path}`, { headers: { ...TEXT, 'If-Match': '"x",'.repeat(20) }, body: 'x' });
      const [last, tail] = [etagOf(await expect(200, `HEAD ${path}`)), 12];
      assert.equal((await expect(412, `POST ${path}`, { headers: { 'If-Match': first, ...CLOSE } })).status, 412);
      await expect(204, `POST ${path}`, { headers: { 'If-Match': last, ...CLOSE } });
      const closed = await expect(200, `HEAD ${path}`);
      assert.notEqual(etagOf(closed), last, 'closing changes it');
      assert.equal(offsetOf(closed), tail);
    }
  });

  test('of many writers with one tag one wins', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    for (let round = 0; round < 5; round++) {
      const tag = etagOf(await expect(200, `HEAD ${path}`));
      const headers = { ...TEXT, 'If-Match': tag };
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, i) => ask(`POST ${path}`, { headers, body: `${i % 10}` })),
      );
      assert.deepEqual(statusesOf(answers), [204, ...Array<number>(19).fill(412)]);
      assert.equal(offsetOf(await expect(200, `HEAD ${path}`)), round + 1);
    }
  });

  test('a create with If-None-Match: * makes a stream or nothing; If-Match needs one that exists', async () => {
    const path = `/${freshBucket()}/s`;
    const fresh = { ...TEXT, 'If-None-Match': '*' };
    await expect(412, `PUT ${path}`, { headers: { ...TEXT, 'If-Match': '*' } });
    await expect(404, `HEAD ${path}`);
    const answers = await Promise.all(Array.from({ length: 10 }, () => ask(`PUT ${path}`, { headers: fresh })));
    assert.deepEqual(statusesOf(answers), [201, ...Array<number>(9).fill(412)]);
    await expect(200, `PUT ${path}`, { headers: TEXT });
    await expect(200, `PUT ${path}`, { headers: { ...TEXT, 'If-Match': etagOf(await expect(200, `HEAD ${path}`)) } });
    await expect(412, `POST ${path}`, { headers: fresh, body: 'x' });
    await expect(404, `POST ${path}-absent`, { headers: fresh, body: 'x' });
    await expect(400, `PUT ${path}-fork`, { headers: { ...fresh, 'Stream-Forked-From': path } });
    await expect(400, `POST ${path}/append-batch`, { headers: fresh, body: '\0\0\0\x01x' });
  });

  test('a delete with If-Match spares newer writes and recreated streams', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'x' });
    const seen = etagOf(await expect(200, `HEAD ${path}`));
    await expect(204, `POST ${path}`, { headers: TEXT, body: 'y' });
    await expect(412, `DELETE ${path}`, { headers: { 'If-Match': seen } });
    await expect(412, `DELETE ${path}`, { headers: { 'If-None-Match': '*' } });
    const now = etagOf(await expect(200, `HEAD ${path}`));
    await expect(204, `DELETE ${path}`, { headers: { 'If-Match': now } });
    await expect(404, `DELETE ${path}`, { headers: { 'If-Match': now } });
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'xy' });
    await expect(412, `DELETE ${path}`, { headers: { 'If-Match': now } });
  });

  test("a producer's repeated request is a duplicate, even if the tag has changed since", async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE });
    const headers = {
      ...JSON_TYPE,
      ...producer('p', 0, 0),
      'If-Match': etagOf(await expect(200, `HEAD ${path}`)),
      'Stream-Seq': 'a',
    };
    await expect(200, `POST ${path}`, { headers, body: '{"n":1}' });
    await expect(204, `POST ${path}`, { headers, body: '{"n":1}' });
    await expect(412, `POST ${path}`, { headers: { ...headers, ...producer('p', 0, 1) }, body: '{"n":2}' });
    assert.equal((await expect(200, `GET ${path}`)).text, '[{"n":1}]');
  });

  test('a body with a coding is refused by every write, and told what is taken', async () => {
    const path = `/${freshBucket()}/s`;
    const targets = [path, `${path}/attrs`, `${path}/snapshot/0`, '/v1/stream/x', '/v1/stream/__ds/subscriptions/s'];
    for (const target of [...targets.map((one) => `PUT ${one}`), `POST ${path}`, `POST ${path}/append-batch`]) {
      for (const coding of ['gzip', 'identity, br', 'GZIP']) {
        const headers = { ...JSON_TYPE, 'Content-Encoding': coding };
        const answer = await expect(415, target, { headers, body: '{}' });
        assertHeaders(answer, { 'accept-encoding': 'identity', 'millrace-error': 'CONTENT_ENCODING' });
      }
    }
    await expect(201, `PUT ${path}`, { headers: { ...JSON_TYPE, 'Content-Encoding': 'identity' }, body: '{}' });
  });

  test('OPTIONS names the methods that each route has, as 405 does, with and without a preflight', async () => {
    const bucket = freshBucket();
    const methods: readonly (readonly [string, string])[] = [
      [`/${bucket}/s`, 'GET, HEAD, POST, PUT, DELETE, OPTIONS'],
      [`/v1/stream/${bucket}/s`, 'GET, HEAD, POST, PUT, DELETE, OPTIONS'],
      [`/${bucket}`, 'GET, HEAD, PUT, DELETE, OPTIONS'],
      [`/${bucket}/streams`, 'GET, HEAD, OPTIONS'],
      [`/${bucket}/s/attrs`, 'GET, HEAD, PUT, OPTIONS'],
      [`/${bucket}/s/append-batch`, 'POST, OPTIONS'],
      [`/${bucket}/s/snapshot`, 'GET, HEAD, PUT, OPTIONS'],
      [`/${bucket}/s/snapshot/0`, 'GET, HEAD, PUT, DELETE, OPTIONS'],
      [`/${bucket}/s/retention/0`, 'PUT, OPTIONS'],
      [`/${bucket}/s/bootstrap`, 'GET, HEAD, OPTIONS'],
      ['/__svc/metrics', 'GET, HEAD, OPTIONS'],
      ['/__svc/usage', 'GET, HEAD, OPTIONS'],
      ['/__svc/health', 'GET, HEAD, OPTIONS'],
      ['/__svc/ready', 'GET, HEAD, OPTIONS'],
      ['/__svc/cluster-probe', 'POST, OPTIONS'],
      ['/__svc/leadership-shed', 'GET, HEAD, OPTIONS'],
      ['/v1/stream/__ds/jwks.json', 'GET, HEAD, OPTIONS'],
      ['/v1/stream/__ds/subscriptions/s', 'GET, HEAD, PUT, DELETE, OPTIONS'],
      ['/v1/stream/__ds/subscriptions/s/streams', 'POST, OPTIONS'],
      ['/v1/stream/__ds/subscriptions/s/streams/a', 'DELETE, OPTIONS'],
      ...['claim', 'callback', 'ack', 'release'].map(
        (verb) => [`/v1/stream/__ds/subscriptions/s/${verb}`, 'POST, OPTIONS'] as const,
      ),
    ];
    const preflight = { Origin: 'http://localhost:1', 'Access-Control-Request-Method': 'PUT' };
    for (const [path, allow] of methods) {
      for (const headers of [{}, preflight]) {
        const answer = await expect(204, `OPTIONS ${path}`, { headers });
        assert.equal(answer.headers.get('allow'), allow, path);
        assertHeaders(answer, { 'access-control-allow-methods': 'GET, HEAD, POST, PUT, DELETE, OPTIONS' });
      }
      assert.equal((await expect(405, `PATCH ${path}`)).headers.get('allow'), allow, path);
    }
    for (const path of ['/', '/__svc/x', `/${bucket}/s/x`, '/v1/stream/__ds/x', '/v1/stream/__ds/subscriptions/']) {
      assert.equal((await expect(204, `OPTIONS ${path}`)).headers.get('allow'), null, path);
    }
  });

  test('Location is a path on the bucketed routes, and a URL of the scheme that the client used on the flat ones', async () => {
    const bucket = freshBucket();
    assertHeaders(await expect(201, `PUT /${bucket}/s`), { location: `/${bucket}/s` });
    for (const [proto, scheme] of [
      ['https', 'https'],
      ['http', 'http'],
      ['HTTPS', 'https'],
      ['https, http', 'https'],
      ['x://evil', 'http'],
    ] as const) {
      const path = `/v1/stream/${bucket}/${encodeURIComponent(proto)}`;
      const answer = await expect(201, `PUT ${path}`, { headers: { 'X-Forwarded-Proto': proto } });
      const location = new URL(answer.headers.get('location') ?? '');
      assert.deepEqual([location.protocol, location.pathname], [`${scheme}:`, path]);
    }
  });
});
