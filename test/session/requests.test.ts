// Every request of a session on a real node: what it does, what it tells, what it refuses, and in which order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BATCH_FRAMES_MAX, JSON_POOLED_BYTES_MIN, SESSION_MESSAGE_BYTES_MAX } from '../../src/base/limits.ts';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { SentName } from '../../src/session/frame.ts';
import { Lane, PendingRequest } from '../../src/session/lane.ts';
import { type TestServer, withServer } from '../support/server.ts';
import {
  APPEND,
  ATTRIBUTES,
  CREATE,
  DELETE,
  DONE,
  GO_AWAY,
  HEAD,
  JSON_TYPE,
  READ,
  REFUSED,
  SUBSCRIBE,
  SessionClient,
  TEXT,
  type Told,
  pack,
} from './client.ts';

async function withSession(body: (client: SessionClient, server: TestServer) => Promise<void>): Promise<void> {
  await withServer({ groups: 4 }, async (server) => {
    const client = await SessionClient.connect(server.port);
    await body(client, server);
    assert.equal(client.closeCode, undefined, client.closeReason);
    client.destroy();
  });
}

const shown = ({ kind, next, code, fields, body }: Told): unknown =>
  kind === REFUSED ? [code, fields] : [next, fields, body];

test('streams are created, appended to, described, read, closed and removed', async () => {
  await withSession(async (client, server) => {
    const bytes = (text: string): Buffer => Buffer.from(text);
    client.send(
      [CREATE, 1, 'b', 'log', null, TEXT],
      [APPEND, 2, 'b', 'log', bytes('one'), TEXT],
      [APPEND, 3, 'b', 'log', [bytes('two'), bytes('three')], TEXT],
      [HEAD, 4, 'b', 'log'],
      [READ, 5, 'b', 'log', { offset: 3, max_bytes: 3 }],
      [APPEND, 6, 'b', 'log', null, { 'stream-closed': true }],
      [APPEND, 7, 'b', 'log', bytes('late'), TEXT],
      [DELETE, 8, 'b', 'log', {}],
      [READ, 9, 'b', 'log', {}],
    );
    const told: Told[] = [];
    for (let id = 1; id <= 9; id++) told.push(await client.take(() => true));
    assert.deepEqual(
      told.map(({ id }) => id),
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
    );
    const etag = told[3]?.fields['etag'];
    const { 'stream-incarnation': incarnation, etag: readTag } = told[4]?.fields ?? {};
    assert.deepEqual(told.map(shown), [
      [0, { 'content-type': 'text/plain', 'stream-created': 'true' }, ''],
      [3, {}, ''],
      [11, {}, '[{"status":204},{"status":204}]'],
      [
        11,
        {
          ...TEXT,
          'stream-up-to-date': 'true',
          'stream-retained-offset': '0',
          etag,
          'stream-cold-hot-start-offset': '0',
        },
        '',
      ],
      [6, { ...TEXT, 'stream-incarnation': incarnation, etag: readTag }, 'two'],
      [11, { 'stream-closed': 'true' }, ''],
      ['STREAM_CLOSED', { 'stream-next-offset': '00000000000000000011', 'stream-closed': 'true' }],
      [null, {}, ''],
      ['STREAM_NOT_FOUND', {}],
    ]);
    assert.equal(told[6]?.status, 409);
    assert.match(etag ?? '', /^"[0-9a-f]{16}"$/);

    const metrics = (await server.metrics()) as Record<string, number> & {
      latency_us: Record<string, { count: number }>;
    };
    assert.deepEqual(
      [metrics['sessions'], metrics['session_requests'], metrics['session_refusals'], metrics['session_faults']],
      [1, 9, 2, 0],
    );
    const counts = ['create', 'append', 'batch', 'close', 'head', 'read', 'delete'].map(
      (name) => metrics.latency_us[name]?.count,
    );
    assert.deepEqual(counts, [1, 2, 1, 1, 1, 2, 1]);
  });
});

test('records, attributes, sequences, conditions and expected offsets are those of HTTP', async () => {
  await withSession(async (client) => {
    const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
    const attributes = { title: 'T' };
    await client.ask(CREATE, 1, 'b', 'é/x', json([1, 2]), { ...JSON_TYPE, 'stream-attrs': '{"title":"é"}' });
    const records = await client.ask(APPEND, 2, 'b', 'é/x', json([3, 4]), { ...JSON_TYPE, 'stream-record-match': 2 });
    assert.deepEqual([records.fields['stream-record-start'], records.fields['stream-record-next']], ['2', '4']);
    const missed = await client.ask(APPEND, 3, 'b', 'é/x', json(5), { ...JSON_TYPE, 'stream-record-match': 2 });
    assert.deepEqual([missed.code, missed.fields['stream-record-next']], ['RECORD_PRECONDITION_FAILED', '4']);
    const read = await client.ask(READ, 4, 'b', 'é/x', { record: 1, max_records: 2, record_view: 'envelope' });
    assert.equal(read.body, '[{"record":1,"value":2},{"record":2,"value":3}]');
    assert.equal((await client.ask(ATTRIBUTES, 5, 'b', 'é/x', null)).body, '{"title":"é"}');
    assert.equal((await client.ask(ATTRIBUTES, 6, 'b', 'é/x', json(attributes))).kind, DONE);
    assert.equal((await client.ask(ATTRIBUTES, 7, 'b', 'é/x', null)).body, JSON.stringify(attributes));
    const seq = { ...JSON_TYPE, 'stream-seq': 'k' };
    assert.equal((await client.ask(APPEND, 8, 'b', 'é/x', json(5), seq)).kind, DONE);
    assert.equal((await client.ask(APPEND, 9, 'b', 'é/x', json(5), seq)).code, 'SEQ_CONFLICT');
    const at = { ...JSON_TYPE, 'stream-expected-offset': 0 };
    const conflict = await client.ask(APPEND, 10, 'b', 'é/x', json(6), at);
    assert.deepEqual([conflict.code, conflict.status], ['EXPECTED_OFFSET_CONFLICT', 409]);
    const tail = Number(conflict.fields['stream-next-offset']);
    const taken = await client.ask(APPEND, 11, 'b', 'é/x', json(6), { ...JSON_TYPE, 'stream-expected-offset': tail });
    assert.equal(taken.kind, DONE);
    const { fields } = await client.ask(HEAD, 12, 'b', 'é/x');
    assert.equal((await client.ask(DELETE, 13, 'b', 'é/x', { 'if-match': '"0"' })).code, 'PRECONDITION_FAILED');
    assert.equal((await client.ask(DELETE, 14, 'b', 'é/x', { 'if-match': fields['etag'] })).kind, DONE);
  });
});

test('a read is answered as by HTTP, and its ETag is a condition of the next write', async () => {
  await withSession(async (client, server) => {
    await client.ask(CREATE, 1, 'b', 's', Buffer.from('[1,2]'), JSON_TYPE);
    const names = ['content-type', 'etag', 'stream-incarnation', 'stream-up-to-date', 'stream-record-next'];
    for (const query of ['', 'max_bytes=0', 'offset=now', 'offset=4', 'record=1', 'tail_records=1']) {
      const { headers, body } = await server.client.request('GET', `/b/s?${query}`);
      const read = await client.ask(READ, 2, 'b', 's', Object.fromEntries(new URLSearchParams(query)));
      assert.equal(read.body, body.toString(), query);
      if (query === 'max_bytes=0' || query === 'offset=now') assert.equal(read.body, '[]', query);
      for (const name of names) assert.equal(read.fields[name], headers.get(name), `${name} of ${query}`);
    }
    const { fields } = await client.ask(READ, 3, 'b', 's', {});
    const append = (id: number): Promise<Told> =>
      client.ask(APPEND, id, 'b', 's', Buffer.from('3'), { ...JSON_TYPE, 'if-match': fields['etag'] });
    assert.equal((await append(4)).kind, DONE);
    assert.equal((await append(5)).code, 'PRECONDITION_FAILED');
  });
});

test('a request that makes no sense is refused as HTTP refuses it, and the session goes on', async () => {
  await withSession(async (client) => {
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    const x = Buffer.from('x');
    const refused = async (...frame: [number, ...unknown[]]): Promise<string> => {
      const [kind, ...rest] = frame;
      const { code, status, sentence } = await client.ask(kind, 99, ...rest);
      return `${status} ${code}: ${sentence}`;
    };
    assert.match(await refused(APPEND, '', 's', x, TEXT), /400 INVALID_NAME.*bucket name is empty/);
    assert.match(await refused(APPEND, 'b', '__s', x, TEXT), /400 INVALID_NAME/);
    assert.match(await refused(APPEND, 'b', 's', x, {}), /400 MISSING_CONTENT_TYPE/);
    assert.match(await refused(APPEND, 'b', 's', null, TEXT), /400 EMPTY_BODY/);
    assert.match(await refused(APPEND, 'b', 's', [], TEXT), /400 INVALID_BATCH/);
    assert.match(await refused(APPEND, 'b', 's', Array(80_000).fill(x), TEXT), /413 TOO_MANY_FRAMES/);
    assert.match(await refused(APPEND, 'b', 's', x, { 'content-type': 'text/html' }), /400 CONTENT_TYPE_MISMATCH/);
    assert.match(await refused(APPEND, 'b', 's', x, { ...TEXT, 'producer-id': 'p' }), /400 PRODUCER_INCOMPLETE/);
    assert.match(await refused(APPEND, 'b', 's', x, { ...TEXT, 'stream-seq': 'é' }), /400 INVALID_HEADER.*Stream-Seq/);
    const strange = { ...TEXT, __proto__x: { constructor: [[1], { a: 2 }] } };
    assert.match(
      await refused(APPEND, 'b', 's', x, strange),
      /400 INVALID_REQUEST.*"__proto__x" does not go with this/,
    );
    assert.match(await refused(APPEND, 'b', 's', [x], { 'stream-closed': true }), /"stream-closed" does not go/);
    assert.match(await refused(READ, 'b', 's', { offset: 1, record: 0 }), /400 INVALID_QUERY.*exclude/);
    assert.match(await refused(READ, 'b', 's', { offset: 9 }), /416 OFFSET_OUT_OF_RANGE/);
    assert.match(await refused(READ, 'b', 's', { live: 'sse', offset: 0 }), /"live" does not go/);
    assert.match(await refused(SUBSCRIBE, 'b', 's', 1, {}), /400 INVALID_QUERY.*position/);
    assert.match(await refused(SUBSCRIBE, 'b', 'none', 1, { offset: 0 }), /404 STREAM_NOT_FOUND/);
    assert.match(await refused(ATTRIBUTES, 'b', 's', Buffer.from('[')), /400 INVALID_ATTRIBUTES/);
    assert.match(await refused(ATTRIBUTES, 'b', 's', Buffer.alloc(0)), /400 INVALID_ATTRIBUTES/);
    assert.equal((await client.ask(HEAD, 99, 'b', 's')).next, 0);
  });
});

test('appends of one stream stay in order, a read sees those before it, and many share a message', async () => {
  await withSession(async (client) => {
    const streams = ['p', 'q', 'r'];
    await Promise.all(streams.map((stream, i) => client.ask(CREATE, i, 'b', stream, null, TEXT)));
    const before = client.messages;
    const frames: unknown[][] = [];
    for (let i = 0; i < 300; i++) {
      frames.push([APPEND, 100 + i, 'b', streams[i % 3], Buffer.from(`${i},`), TEXT]);
      // Refused at once, and told in its turn.
      if (i % 30 === 0) frames.push([APPEND, 1000 + i, 'b', streams[i % 3], Buffer.from('x'), {}]);
    }
    streams.forEach((stream, i) => frames.push([READ, 500 + i, 'b', stream, {}]));
    client.send(...frames);
    const told: Told[] = [];
    for (let i = 0; i < frames.length; i++) told.push(await client.take(() => true));
    const wanted = (stream: string): unknown[] =>
      frames.filter((frame) => frame[3] === stream).map((frame) => frame[1]);
    for (const [i, stream] of streams.entries()) {
      const ids = new Set(wanted(stream));
      assert.deepEqual(
        told.filter(({ id }) => ids.has(id)).map(({ id }) => id),
        wanted(stream),
      );
      const all = Array.from({ length: 100 }, (_, n) => `${3 * n + i},`).join('');
      assert.equal(told.find(({ id }) => id === 500 + i)?.body, all);
    }
    assert(client.messages - before < frames.length / 4, `${client.messages - before} messages`);
  });
});

test('a batch whose JSON is checked apart is not overtaken by the append behind it', async () => {
  await withSession(async (client) => {
    await client.ask(CREATE, 1, 'b', 's', null, JSON_TYPE);
    // As large as a message may be. The lengths that join its parts lift the body over the bound of the pool.
    const body = (bytes: number): Buffer => Buffer.from(`"${'x'.repeat(bytes)}"`);
    const bytes = SESSION_MESSAGE_BYTES_MAX / BATCH_FRAMES_MAX - 6;
    const parts = Array.from({ length: BATCH_FRAMES_MAX }, () => body(bytes));
    const rest = SESSION_MESSAGE_BYTES_MAX - pack([APPEND, 2, 'b', 's', parts, JSON_TYPE]).length;
    parts[0] = body(bytes + rest);
    assert(joinFrames(parts).length > JSON_POOLED_BYTES_MIN);
    client.send([APPEND, 2, 'b', 's', parts, JSON_TYPE]);
    client.send([APPEND, 3, 'b', 's', Buffer.from('"last"'), JSON_TYPE]);
    const [first, last] = [await client.about(2), await client.about(3)];
    assert.deepEqual([first.kind, last.kind], [DONE, DONE]);
    assert.equal((await client.ask(READ, 4, 'b', 's', { tail_records: 1 })).body, '["last"]');
  });
});

test('a producer takes effect once across two sessions', async () => {
  await withSession(async (first, server) => {
    const second = await SessionClient.connect(server.port);
    const options = (seq: number): object => ({
      ...TEXT,
      ...{ 'producer-id': 'p', 'producer-epoch': 0, 'producer-seq': seq },
    });
    await first.ask(CREATE, 1, 'b', 's', null, TEXT);
    const append = (client: SessionClient, id: number, seq: number): Promise<Told> =>
      client.ask(APPEND, id, 'b', 's', Buffer.from(`${seq}`), options(seq));
    assert.deepEqual(shown(await append(first, 2, 0)), [1, { 'producer-epoch': '0', 'producer-seq': '0' }, '']);
    const [one, two] = await Promise.all([append(first, 3, 1), append(second, 3, 1)]);
    assert.deepEqual([one.next, two.next], [2, 2]);
    const duplicates = [one, two].filter(({ fields }) => fields['producer-duplicate'] === 'true');
    assert.equal(duplicates.length, 1);
    const gap = await append(second, 4, 7);
    assert.deepEqual(
      [gap.code, gap.fields['producer-expected-seq'], gap.fields['producer-received-seq']],
      ['PRODUCER_SEQ_CONFLICT', '2', '7'],
    );
    assert.equal((await first.ask(READ, 5, 'b', 's', {})).body, '01');
    second.destroy();
  });
});

test('quotas count what sessions write', async () => {
  await withSession(async (client, server) => {
    const quota = '{"max_streams":1,"max_retained_bytes":4}';
    const set = await server.admin.request('PUT', '/__svc/quota/b', { 'Content-Type': 'application/json' }, quota);
    assert.equal(set.status, 204, set.body.toString());
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    const other = await client.ask(CREATE, 2, 'b', 't', null, TEXT);
    assert.deepEqual([other.status, other.code], [429, 'QUOTA_EXCEEDED']);
    assert.match(other.sentence, /max_streams is 1, it has 1/);
    assert.equal((await client.ask(APPEND, 3, 'b', 's', Buffer.from('four'), TEXT)).next, 4);
    assert.equal((await client.ask(APPEND, 4, 'b', 's', Buffer.from('x'), TEXT)).code, 'QUOTA_EXCEEDED');
    assert.equal((await client.ask(APPEND, 5, 'b', 's', [Buffer.from('x')], TEXT)).body, '[{"status":429}]');
  });
});

test('a node that stops says so, answers what is under way, and ends the session', async () => {
  await withServer({}, async (server) => {
    const client = await SessionClient.connect(server.port);
    await client.ask(CREATE, 1, 'b', 's', null, TEXT);
    client.send([SUBSCRIBE, 2, 'b', 's', 1000, { offset: 0 }]);
    await client.about(2);
    const stopped = server.stop();
    assert.equal(await client.ended(), 1001);
    assert.equal(await stopped, 0);
    assert.deepEqual(
      client.told.map(({ kind, id, code }) => [kind, id, code]),
      [
        [REFUSED, 2, 'STOPPING'],
        [GO_AWAY, -1, ''],
      ],
    );
  });
});

test('a fault of ours in one request does not hold up those behind it', () => {
  const started: number[] = [];
  const lane: Lane = new Lane(
    {
      requestId: 'r',
      start({ id }) {
        started.push(id);
        if (id === 2) throw new Error('a fault');
      },
      replied: () => undefined,
      leave: () => undefined,
    },
    new SentName('b', 's'),
  );
  const requests = [1, 2, 3].map(
    (id) => new PendingRequest(lane, { id, operation: undefined, bytes: 0, readBytes: 0, startedMs: 0 }),
  );
  assert.deepEqual(
    requests.map((request) => lane.add(request)),
    [true, false, false],
  );
  const [first, second] = requests as [PendingRequest, PendingRequest];
  assert.throws(() => lane.answered(first), /a fault/);
  lane.answered(second);
  assert.deepEqual(started, [2, 3]);
});
