// Application snapshots, retention and bootstrap.
import assert from 'node:assert/strict';
import { snapshotDigest } from '../../src/digest/blake3.ts';
import { type Answer, JSON_TYPE, TEXT, assertHeaders, offsetOf, serverSuite } from '../support/suite.ts';
import { multipart } from '../support/multipart.ts';

const pad = (offset: number): string => String(offset).padStart(20, '0');
const digest = (type: string, body: string): string =>
  Buffer.from(snapshotDigest(type, new TextEncoder().encode(body))).toString('hex');

serverSuite('application snapshots', { process: true, cores: 1 }, ({ server, test, expect, ask, freshBucket }) => {
  /** HEAD says what GET says, without the body. */
  const sameByHead = async (path: string): Promise<void> => {
    const shown = (answer: Answer): string[] =>
      [...answer.headers]
        .filter(([name]) => !['date', 'content-length', 'transfer-encoding', 'connection', 'keep-alive'].includes(name))
        .map(([name, value]) => `${name}: ${value.replace(/boundary=.*/, '')}`);
    // Refusals have an id, and without one that is sent each has its own.
    const headers = { 'X-Request-Id': 'both' };
    const get = await ask(`GET ${path}`, { headers });
    const head = await expect(get.status, `HEAD ${path}`, { headers });
    assert.equal(head.text, '');
    assert.deepEqual(shown(head), shown(get), path);
    const [has, size] = [head, get].map((answer) => answer.headers.get('content-length'));
    if (has !== null) assert.equal(has, size, path);
  };

  test('publish, redirect, read, replace', async () => {
    const path = `/${freshBucket()}/ev`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: '[{"b":1,"a":2},{"c":3}]' });
    await expect(404, `GET ${path}/snapshot`);
    const put = await expect(204, `PUT ${path}/snapshot/${pad(14)}`, { headers: JSON_TYPE, body: '{"state":1}' });
    const first = digest('application/json', '{"state":1}');
    const records = { 'stream-record-first': '0', 'stream-record-next': '2' };
    const shown = { 'stream-snapshot-offset': pad(14), 'stream-snapshot-digest': first, ...records };
    assertHeaders(put, { ...shown, 'stream-extensions': 'json-record-coordinates-v1' });
    const redirect = await expect(307, `GET ${path}/snapshot`);
    assertHeaders(redirect, { ...shown, location: `${path}/snapshot/${pad(14)}` });
    const read = await expect(200, `GET ${path}/snapshot/14`);
    assert.equal(read.text, '{"state":1}');
    assertHeaders(read, { ...shown, 'content-type': 'application/json', 'stream-up-to-date': null, etag: null });
    assert.equal(offsetOf(read), 14);
    await expect(404, `GET ${path}/snapshot/0`);
    await expect(404, `GET ${path}/snapshot/22`);
    assertHeaders(await expect(200, `HEAD ${path}`), {
      'stream-snapshot-offset': pad(14),
      'stream-snapshot-digest': first,
    });
    // By record, without a type; history stays.
    const next = await expect(204, `PUT ${path}/snapshot?record=2`, { body: '' });
    assertHeaders(next, {
      'stream-snapshot-offset': pad(22),
      'stream-snapshot-digest': digest('application/octet-stream', ''),
    });
    const empty = await expect(200, `GET ${path}/snapshot/22`);
    assert.equal(empty.text, '');
    assertHeaders(empty, { 'content-type': 'application/octet-stream', 'stream-up-to-date': 'true' });
    await expect(404, `GET ${path}/snapshot/14`);
    assert.equal((await expect(200, `GET ${path}?offset=0`)).text, '[{"b":1,"a":2},{"c":3}]');
  });

  test('the matrix of refusals, and what is idempotent', async () => {
    const bucket = freshBucket();
    const path = `/${bucket}/s`;
    const put = (status: number, at: string, body = 'x', headers: Record<string, string> = TEXT): Promise<Answer> =>
      expect(status, `PUT ${path}/snapshot${at}`, { headers, body });
    await put(404, '/0');
    await expect(201, `PUT ${path}`, { headers: TEXT });
    for (const body of ['abc', 'de', 'fghi']) await expect(204, `POST ${path}`, { headers: TEXT, body });
    for (const bad of ['/-1', '/now', '/1x', '/%2B1', '', '?record=x', '?record=']) await put(400, bad);
    assert.match((await put(400, '/0?record=5')).text, /^.*: name one position: /);
    await put(400, '?record=1');
    await put(409, '/10');
    for (const inside of ['/1', '/4', '/8']) await put(400, inside);
    await put(409, '/3', 'x', { ...TEXT, 'Stream-Snapshot-Match': digest('text/plain', 'x') });
    await put(400, '/3', 'x', { ...TEXT, 'Stream-Snapshot-Match': '' });
    await put(204, '/3');
    await put(204, '/3');
    for (const match of ['zz', 'latest']) {
      await put(409, '/3', 'y', { ...TEXT, 'Stream-Snapshot-Match': match });
      await put(204, '/3', 'x', { ...TEXT, 'Stream-Snapshot-Match': match });
    }
    await put(409, '/3', 'y');
    await put(409, '/3', 'x', { 'Content-Type': 'text/html' });
    await put(409, '/0');
    await put(409, '/5', 'y', { ...TEXT, 'Stream-Snapshot-Match': digest('text/plain', 'z') });
    await put(204, '/5', 'y', { ...TEXT, 'Stream-Snapshot-Match': digest('text/plain', 'x').toUpperCase() });
    await expect(404, `DELETE ${path}/snapshot/3`);
    assert.match((await expect(409, `DELETE ${path}/snapshot/5`)).text, /publish a later one in its place\n$/);
    assert.match((await expect(400, `DELETE ${path}/snapshot/x`)).text, /^the position is malformed: the offset /);
    await sameByHead(`${path}/snapshot/5`);
    await sameByHead(`${path}/snapshot`);
    await sameByHead(`${path}/snapshot/4`);
    await sameByHead(`${path}/bootstrap`);
    await expect(405, `POST ${path}/snapshot/5`);
    // Also when closed, up to the tail; gone with the stream.
    await expect(204, `POST ${path}`, { headers: { 'Stream-Closed': 'true' } });
    await put(204, `/${pad(9)}`, 'all');
    await expect(204, `DELETE ${path}`);
    await expect(404, `GET ${path}/snapshot/9`);
    await expect(201, `PUT ${path}`, { headers: TEXT });
    await expect(404, `GET ${path}/snapshot`);
    await expect(413, `PUT ${path}/snapshot/0`, { headers: TEXT, body: 'x'.repeat(32 * 1024 * 1024 + 1) });
  });

  test('large ones, over a restart, replaced by smaller ones', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'abc' });
    const large = 'large '.repeat(700_000);
    await expect(204, `PUT ${path}/snapshot/0`, { headers: TEXT, body: large });
    const check = async (body: string, at: number): Promise<void> => {
      const read = await expect(200, `GET ${path}/snapshot/${at}`);
      assert(read.text === body, `${read.text.length} bytes of ${body.length}`);
      assertHeaders(read, { 'stream-snapshot-digest': digest('text/plain', body) });
    };
    await check(large, 0);
    await server.stop();
    await server.start();
    await check(large, 0);
    await expect(204, `PUT ${path}/snapshot/3`, { headers: TEXT, body: 'small' });
    await check('small', 3);
    await server.kill();
    await server.start();
    await check('small', 3);
  });

  test('retention: up to the snapshot, never back; below the floor everything is gone', async () => {
    const bucket = freshBucket();
    const path = `/${bucket}/ev`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: '[{"b":1,"a":2},{"c":3},4]' });
    const put = (status: number, at: string): Promise<Answer> => expect(status, `PUT ${path}/retention${at}`);
    const usage = async (): Promise<Record<string, number> | undefined> => {
      const { text } = await expect(200, 'GET /__svc/usage', { base: server.adminUrl });
      return (JSON.parse(text) as { buckets: Record<string, Record<string, number>> }).buckets[bucket];
    };
    await expect(404, `PUT /${bucket}/other/retention/0`);
    await put(409, '/0');
    await expect(204, `PUT ${path}/snapshot/22`, { headers: JSON_TYPE, body: '{}' });
    await put(409, '/24');
    await put(400, '/5');
    for (const bad of ['/-1', '', '/x', '?record=y']) await put(400, bad);
    assert.match((await put(400, '/0?record=5')).text, /^.*: name one position: /);
    await put(400, '?record=9');
    await put(204, '/0');
    const raised = await put(204, '?record=1');
    assertHeaders(raised, {
      'stream-retained-offset': '14',
      'stream-record-first': '1',
      'stream-record-next': '3',
      'stream-extensions': 'json-record-coordinates-v1',
    });
    assert.equal((await usage())?.['retained_bytes'], 24 - 14);
    assert.equal((await usage())?.['committed_append_bytes'], 24);
    await put(409, '/0');
    await put(410, '?record=0');
    await put(204, '/14');
    for (const query of ['', '?offset=-1', '?offset=0', '?offset=0&live=long-poll', '?offset=-1&live=sse']) {
      const gone = await expect(410, `GET ${path}${query}`);
      assert.equal(offsetOf(gone), 14, query);
    }
    assertHeaders(await expect(410, `GET ${path}?record=0`), { 'stream-record-first': '1', 'stream-record-next': '3' });
    await expect(410, `PUT ${path}/snapshot/0`, { headers: JSON_TYPE, body: '{}' });
    assert.equal((await expect(200, `GET ${path}?offset=14`)).text, '[{"c":3},4]');
    assert.equal((await expect(200, `GET ${path}?tail_records=9`)).text, '[{"c":3},4]');
    assertHeaders(await expect(200, `HEAD ${path}`), { 'stream-retained-offset': '14', 'stream-record-first': '1' });
    await server.kill();
    await server.start();
    await expect(410, `GET ${path}?offset=-1`);
    await put(204, '/22');
    assert.equal((await expect(200, `GET ${path}?offset=22`)).text, '[4]');
    await expect(204, `DELETE ${path}`);
    assert.equal((await usage())?.['retained_bytes'], 0);
  });

  test('bootstrap: the snapshot, then each message behind it', async () => {
    const bucket = freshBucket();
    const json = `/${bucket}/ev`;
    await expect(404, `GET ${json}/bootstrap`);
    await expect(201, `PUT ${json}`, { headers: JSON_TYPE, body: '[{"b":1,"a":2},{"c":3},4]' });
    const before = multipart(await expect(200, `GET ${json}/bootstrap`));
    assert.deepEqual(before, [
      { type: 'application/octet-stream', body: '' },
      { type: 'application/json', body: '{"b":1,"a":2}\n' },
      { type: 'application/json', body: '{"c":3}\n' },
      { type: 'application/json', body: '4\n' },
    ]);
    await expect(204, `PUT ${json}/snapshot?record=1`, { headers: TEXT, body: 'state' });
    await expect(204, `PUT ${json}/retention?record=1`);
    const answer = await expect(200, `GET ${json}/bootstrap`);
    assertHeaders(answer, {
      'stream-snapshot-offset': pad(14),
      'stream-up-to-date': 'true',
      'stream-closed': null,
      'stream-record-first': '1',
      'stream-record-next': '3',
      'cache-control': 'no-store',
    });
    assert.equal(offsetOf(answer), 24);
    assert.deepEqual(multipart(answer), [
      { type: 'text/plain', body: 'state' },
      { type: 'application/json', body: '{"c":3}\n' },
      { type: 'application/json', body: '4\n' },
    ]);
    const bytes = `/${bucket}/bytes`;
    await expect(201, `PUT ${bytes}`, { headers: TEXT });
    const none = await expect(200, `GET ${bytes}/bootstrap`);
    assertHeaders(none, { 'stream-snapshot-offset': '-1', 'stream-extensions': null });
    assert.deepEqual(multipart(none), [{ type: 'application/octet-stream', body: '' }]);
    for (const body of ['a', '\r\n--x--\r\n', 'z'.repeat(9000)])
      await expect(204, `POST ${bytes}`, { headers: TEXT, body });
    await expect(204, `POST ${bytes}`, { headers: { 'Stream-Closed': 'true' } });
    const all = await expect(200, `GET ${bytes}/bootstrap?x=y`);
    assertHeaders(all, { 'stream-closed': 'true' });
    assert.deepEqual(
      multipart(all).map(({ body }) => body),
      ['', 'a', '\r\n--x--\r\n', 'z'.repeat(9000)],
    );
    for (const live of ['live=sse', 'live', 'live=']) await expect(400, `GET ${bytes}/bootstrap?${live}`);
    await expect(405, `PUT ${bytes}/bootstrap`);
    await sameByHead(`${bytes}/bootstrap`);
    await sameByHead(`${bytes}/snapshot`);
  });

  test('a bootstrap of megabytes, appended to meanwhile, ends at its tail', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const messages = Array.from({ length: 60 }, (_, i) => `${i}:`.padEnd(i % 7 === 0 ? 400_000 : 30_000, 'm'));
    for (const body of messages) await expect(204, `POST ${path}`, { headers: TEXT, body });
    const snapshot = 's'.repeat(2_500_000);
    await expect(204, `PUT ${path}/snapshot/400000`, { headers: TEXT, body: snapshot });
    const appends = Array.from({ length: 20 }, () => ask(`POST ${path}`, { headers: TEXT, body: 'late' }));
    const answer = await expect(200, `GET ${path}/bootstrap`);
    await Promise.all(appends);
    const parts = multipart(answer);
    const tail = parts.slice(1).reduce((sum, { body }) => sum + body.length, 400_000);
    assert.equal(tail, offsetOf(answer));
    assert(parts[0]?.body === snapshot);
    const bodies = parts.slice(1).map(({ body }) => body);
    assert(bodies.slice(0, 59).every((body, i) => body === messages[i + 1]));
    assert(bodies.slice(59).every((body) => body === 'late'));
  });
});
