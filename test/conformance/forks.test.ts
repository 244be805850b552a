// Forks beyond the official suite: the bucketed routes, sub-resources, records, retention, bytes in the cold store,
// purge and usage.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import {
  type Answer,
  JSON_TYPE,
  type Suite,
  TEXT,
  assertHeaders,
  offsetOf,
  producer,
  serverSuite,
} from '../support/suite.ts';

const GROUPS = 8;
const COLD = '[storage.cold]\nbackend = "dir"\nflush_interval = "50ms"\nflush_size = "1 B"\n';
const LARGE = 700 * 1024;
const parse = (answer: Answer): Record<string, number> => JSON.parse(answer.text) as Record<string, number>;
const from = (source: string, offset?: number, sub?: number): Record<string, string> => ({
  'Stream-Forked-From': source,
  ...(offset === undefined ? {} : { 'Stream-Fork-Offset': String(offset).padStart(20, '0') }),
  ...(sub === undefined ? {} : { 'Stream-Fork-Sub-Offset': String(sub) }),
});

function define({ server, test, expect, freshBucket }: Suite): void {
  const read = async (path: string, query = 'offset=-1'): Promise<string> =>
    (await expect(200, `GET ${path}?${query}`)).text;

  test('a fork on the bucketed routes, of a stream in another group, by either kind of path', async () => {
    const bucket = freshBucket();
    const source = `/${bucket}/a%2Fb`;
    await expect(201, `PUT ${source}`, { headers: TEXT, body: 'hello ' });
    await expect(204, `POST ${source}`, { headers: TEXT, body: 'world' });
    const groups = new Set<number>();
    for (let i = 0; i < 6; i++) {
      const path = i % 2 === 0 ? source : `/v1/stream/${bucket}/a/b`;
      const answer = await expect(201, `PUT /${bucket}/f${i}`, {
        headers: { ...from(path, 6, i), ...TEXT },
        body: '!',
      });
      assertHeaders(answer, { location: `/${bucket}/f${i}`, 'content-type': 'text/plain' });
      assert.equal(offsetOf(answer), 6 + i + 1);
      assert.equal(await read(`/${bucket}/f${i}`), `hello ${'world'.slice(0, i)}!`);
      groups.add(fnv1a64mod(bucket, `f${i}`, GROUPS));
    }
    assert(groups.size > 1, 'forks in several groups');
    await expect(400, `PUT /${bucket}/g`, { headers: from(source, 6, 6) });
    await expect(400, `PUT /${bucket}/g`, { headers: from(source, 12) });
    await expect(404, `PUT /${bucket}/g`, { headers: from(`/${bucket}/none`) });
    await expect(409, `PUT /${bucket}/g`, { headers: { ...from(source), ...JSON_TYPE } });
    await expect(409, `PUT /${bucket}/f1`, { headers: TEXT });
    await expect(404, `GET /${bucket}/g?offset=-1`);
    assert.equal(parse(await expect(200, `GET /${bucket}`))['streams'], 7, 'refusals leave nothing');
    await expect(204, `DELETE ${source}`);
    for (const sub of ['attrs', 'bootstrap', 'snapshot', `snapshot/${'0'.repeat(20)}`])
      await expect(410, `GET ${source}/${sub}`);
    await expect(410, `HEAD ${source}`);
    await expect(410, `PUT ${source}/attrs`, { headers: JSON_TYPE, body: '{}' });
    await expect(410, `PUT ${source}/retention/0`);
    await expect(410, `POST ${source}/append-batch`, { headers: TEXT, body: '\0\0\0\x01x' });
    await expect(410, `GET ${source}?offset=-1&live=sse`);
    await expect(409, `PUT ${source}`, { headers: TEXT });
    await expect(409, `PUT /${bucket}/g`, { headers: from(source) });
    const listed = JSON.parse(await read(`/${bucket}/streams`, 'limit=100')) as { streams?: unknown[] };
    assert.equal(JSON.stringify(listed).includes('a/b'), false, 'it is not listed');
    for (let i = 0; i < 6; i++) await expect(204, `DELETE /${bucket}/f${i}`);
    await expect(404, `GET ${source}?offset=-1`);
    await expect(201, `PUT ${source}`, { headers: TEXT });
  });

  test('inherited bytes are not metered as appended, and new appends are as usual', async () => {
    const bucket = freshBucket();
    const other = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT, body: 'x'.repeat(1000) });
    await expect(201, `PUT /${other}/f`, { headers: { ...from(`/${bucket}/s`), ...TEXT }, body: 'yy' });
    const report = JSON.parse((await expect(200, 'GET /__svc/usage', { base: server.adminUrl })).text) as {
      buckets: Record<string, Record<string, number>>;
    };
    const usage = report.buckets[other] as Record<string, number>;
    assert.equal(usage['committed_append_bytes'], 2);
    assert.equal(usage['committed_write_units'], 1);
    assert.equal(usage['retained_bytes'], 1002);
    assert.equal(usage['stream_count'], 1);
  });

  test('records, producers and Stream-Seq: coordinates continue, and writers start over', async () => {
    const bucket = freshBucket();
    const [source, fork] = [`/${bucket}/s`, `/${bucket}/f`];
    const writer = { ...JSON_TYPE, ...producer('p', 3, 0), 'Stream-Seq': 'b' };
    await expect(201, `PUT ${source}`, { headers: writer, body: '[{"n":1},{"n":2.50},3,4]' });
    const made = await expect(201, `PUT ${fork}`, {
      headers: { ...from(source, 0, 2), ...producer('p', 0, 0) },
      body: '[5, 6]',
    });
    assertHeaders(made, {
      'stream-record-start': '2',
      'stream-record-next': '4',
      'producer-epoch': '0',
      'content-type': 'application/json',
    });
    assert.equal(await read(fork), '[{"n":1},{"n":2.50},5,6]');
    assert.equal(
      await read(fork, 'record=1&max_records=2&record_view=envelope'),
      '[{"record":1,"value":{"n":2.50}},{"record":2,"value":5}]',
    );
    await expect(200, `POST ${fork}`, {
      headers: { ...JSON_TYPE, ...producer('p', 0, 1), 'Stream-Seq': 'a' },
      body: '7',
    });
    await expect(412, `POST ${fork}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': '4' }, body: '8' });
    await expect(400, `PUT /${bucket}/g`, { headers: from(source, 3) });
    await expect(400, `PUT /${bucket}/g`, { headers: from(source, 0, 5) });
    await expect(400, `PUT /${bucket}/g`, { headers: from(source), body: '{' });
    await expect(404, `HEAD /${bucket}/g`);
    await expect(204, `DELETE ${source}`, {});
    await expect(204, `DELETE ${fork}`, {});
    await expect(404, `HEAD ${source}`);
  });

  test('a large stream with a floor is forked from there, byte for byte', async () => {
    const bucket = freshBucket();
    const source = `/${bucket}/s`;
    await expect(201, `PUT ${source}`, { headers: TEXT });
    for (let i = 0; i < 6; i++) await expect(204, `POST ${source}`, { headers: TEXT, body: `${i}`.repeat(LARGE) });
    await expect(204, `PUT ${source}/snapshot/${String(LARGE).padStart(20, '0')}`, { headers: TEXT, body: 'zeros' });
    await expect(204, `PUT ${source}/retention/${LARGE}`);
    const tail = 4 * LARGE + 10;
    await expect(410, `PUT /${bucket}/f`, { headers: from(source, LARGE - 1) });
    await expect(201, `PUT /${bucket}/f`, { headers: from(source, 4 * LARGE, 10) });
    const head = await expect(200, `HEAD /${bucket}/f`);
    assert.equal(offsetOf(head), tail);
    assertHeaders(head, { 'stream-retained-offset': String(LARGE), 'stream-snapshot-offset': null });
    await expect(410, `GET /${bucket}/f?offset=-1`);
    for (let offset = LARGE; offset < tail;) {
      const answer = await expect(200, `GET /${bucket}/f?offset=${offset}`);
      const digit = (at: number): string => String(Math.floor(at / LARGE));
      assert.equal(answer.text[0], digit(offset));
      assert.equal(answer.text.at(-1), digit(offset + answer.text.length - 1));
      offset = offsetOf(answer);
    }
    // A reader that got the 410 begins there: without a snapshot, at the floor.
    const bootstrap = await expect(200, `GET /${bucket}/f/bootstrap`);
    assertHeaders(bootstrap, { 'stream-snapshot-offset': '-1' });
    assert.equal(offsetOf(bootstrap), tail);
    const parts = bootstrap.text.split(/\r\n--.*\r\nContent-Type: text\/plain\r\n\r\n/).slice(1);
    assert.deepEqual(
      parts.map((part) => part[0]),
      ['1', '2', '3', '4'],
    );
  });

  test('a purge frees names, and forks in other buckets live on', async () => {
    const [bucket, other] = [freshBucket(), freshBucket()];
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT, body: 'kept' });
    await expect(201, `PUT /${bucket}/f`, { headers: from(`/${bucket}/s`) });
    await expect(201, `PUT /${other}/f`, { headers: from(`/${bucket}/s`) });
    await expect(204, `DELETE /${bucket}/s`);
    await expect(200, `DELETE /__svc/purge/${bucket}`, { base: server.adminUrl });
    for (const name of ['s', 'f']) await expect(404, `HEAD /${bucket}/${name}`);
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT });
    assert.equal(await read(`/${other}/f`), 'kept');
    await expect(204, `DELETE /${other}/f`);
    await expect(200, `HEAD /${bucket}/s`);
  });

  test('lifetimes are inherited, and shown', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: { ...TEXT, 'Stream-TTL': '500' } });
    for (const status of [201, 200]) {
      assertHeaders(await expect(status, `PUT /${bucket}/f`, { headers: from(`/${bucket}/s`) }), {
        'stream-ttl': '500',
      });
    }
    const own = { ...from(`/${bucket}/s`), 'Stream-Expires-At': '2099-01-01T00:00:00Z' };
    for (const status of [201, 200]) {
      const answer = await expect(status, `PUT /${bucket}/g`, { headers: own });
      assertHeaders(answer, { 'stream-ttl': null, 'stream-expires-at': '2099-01-01T00:00:00.000Z' });
    }
    await expect(409, `PUT /${bucket}/g`, { headers: from(`/${bucket}/s`) });
    await expect(400, `PUT /${bucket}/h`, { headers: { ...own, 'Stream-TTL': '5' } });
  });
}

serverSuite('forks', { cores: 2, groups: GROUPS }, define);
serverSuite('forks of streams that are in the cold store at once', { cores: 2, groups: GROUPS, toml: COLD }, define);
