// Stream routes of the client plane over a gateway that answers what the test says: what is asked, and how answers
// look.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import type { ErrorCode } from '../../src/base/errors.ts';
import {
  REPLY_CLOSED,
  REPLY_CREATED,
  REPLY_DUPLICATE,
  REPLY_PRODUCER,
  REPLY_RECORDS,
  REPLY_UP_TO_DATE,
  showProducer,
  showSeqConflict,
} from '../../src/protocol/reply.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { showRead } from '../../src/protocol/queries/read.ts';

const OFFSET_5 = '00000000000000000005';
const JSON_TYPE = { 'content-type': 'application/json' };

function headersOf(response: Response, ...names: string[]): (string | null)[] {
  return names.map((name) => response.headers.get(name));
}

test('an append copies the body and the headers into one command', async (t) => {
  const { gateway, client, counters } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    reply.nextOffset = 5;
  };
  const response = await fetch(`${client}/demo/a%2Fb`, {
    method: 'POST',
    headers: { 'content-type': 'Text/Plain', 'stream-seq': '01', 'stream-record-match': '3' },
    body: 'hello',
  });
  assert.equal(response.status, 204);
  assert.deepEqual(headersOf(response, 'stream-next-offset', 'content-length', 'etag'), [OFFSET_5, null, null]);
  const { op, bucket, stream, contentType, streamSeq, recordMatch, payload, group } = gateway.last;
  assert.deepEqual([op, bucket, stream], [COMMANDS.append.number, 'demo', 'a/b']);
  assert.deepEqual([contentType, streamSeq, recordMatch], ['text/plain', '01', 3]);
  assert.equal(payload?.toString(), 'hello');
  assert.equal(group, gateway.groupOf('demo', 'a/b'));
  assert.equal(counters.snapshot().responses_by_status['204'], 1);
  assert.equal(counters.snapshot().latency_us['append']?.count, 1);
});

test('a body in many chunks arrives whole, declared or not', async (t) => {
  const { gateway, client, port } = await startPlanes(t);
  const body = Buffer.alloc(3 * 1024 * 1024 + 17, 'abcdefgh');
  await fetch(`${client}/b/s`, { method: 'POST', headers: { 'content-type': 'x/y' }, body });
  assert(gateway.last.payload?.equals(body));
  const chunk = body.subarray(0, 100_000);
  const framed = Buffer.concat([
    Buffer.from('POST /b/s HTTP/1.1\r\nHost: x\r\nContent-Type: x/y\r\nTransfer-Encoding: chunked\r\n\r\n'),
    ...[chunk, chunk, chunk].flatMap((part) => [
      Buffer.from(`${part.length.toString(16)}\r\n`),
      part,
      Buffer.from('\r\n'),
    ]),
    Buffer.from('0\r\n\r\n'),
  ]);
  const raw = await RawClient.connect(port);
  t.after(() => raw.destroy());
  assert.equal((await raw.send(framed)).status, 204);
  assert(gateway.last.payload?.equals(Buffer.concat([chunk, chunk, chunk])));
  assert.equal((await raw.request('POST', '/b/s', { 'content-type': 'x/y' }, 'small')).status, 204);
  assert.equal(gateway.last.payload?.toString(), 'small', 'the connection goes on after a chunked body');
});

test('successful writes by producer, duplicate and close, in both families', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const producer = { 'producer-id': 'p', 'producer-epoch': '2', 'producer-seq': '7' };
  let flags = 0;
  gateway.script = (asked, reply) => {
    reply.flags = flags | (asked.close ? REPLY_CLOSED : 0);
    reply.nextOffset = 5;
    showProducer(reply, 2, 7);
  };
  const post = async (path: string, headers: Record<string, string>, body?: string): Promise<Response> =>
    fetch(`${client}${path}`, { method: 'POST', headers, ...(body === undefined ? {} : { body }) });
  const type = { 'content-type': 'text/plain' };
  for (const [base, closeOnly] of [
    ['/b/s', 200],
    ['/v1/stream/b/s', 204],
  ] as const) {
    flags = REPLY_PRODUCER;
    const accepted = await post(base, { ...type, ...producer }, 'x');
    assert.equal(accepted.status, 200);
    assert.deepEqual(headersOf(accepted, 'producer-epoch', 'producer-seq', 'stream-closed'), ['2', '7', null]);
    assert.deepEqual(gateway.last.producer, ['p', 2, 7]);
    const closed = await post(base, { ...type, ...producer, 'stream-closed': 'true' }, 'x');
    assert.deepEqual([closed.status, closed.headers.get('stream-closed')], [200, 'true']);
    const only = await post(base, {
      ...producer,
      'stream-closed': 'true',
      'stream-record-match': '9',
      'content-type': 'a/b',
    });
    assert.deepEqual([only.status, only.headers.get('stream-closed')], [closeOnly, 'true']);
    assert.deepEqual([gateway.last.contentType, gateway.last.recordMatch, gateway.last.payload], ['', 9, undefined]);
    flags = REPLY_PRODUCER | REPLY_DUPLICATE;
    assert.equal((await post(base, { ...type, ...producer }, 'x')).status, 204);
    flags = 0;
    assert.equal((await post(base, { 'stream-closed': 'true' })).status, 204);
    flags = REPLY_RECORDS;
    const records = await post(base, JSON_TYPE, '[1,2]');
    assert.deepEqual(headersOf(records, 'stream-record-start', 'stream-record-next', 'stream-extensions'), [
      '0',
      '0',
      'json-record-coordinates-v1',
    ]);
  }
});

test('refusals by family', async (t) => {
  const { gateway, client } = await startPlanes(t);
  let code: ErrorCode = 'OK';
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber(code);
    reply.nextOffset = 5;
    showProducer(reply, 3, 0);
    showSeqConflict(reply, 4, 9);
    reply.recordNext = 8;
  };
  const rows: [ErrorCode, number, number, Record<string, string>][] = [
    ['STREAM_NOT_FOUND', 404, 404, {}],
    ['CONTENT_TYPE_MISMATCH', 400, 409, { 'stream-next-offset': OFFSET_5 }],
    ['STREAM_CLOSED', 409, 409, { 'stream-next-offset': OFFSET_5, 'stream-closed': 'true' }],
    ['SEQ_CONFLICT', 409, 409, { 'stream-next-offset': OFFSET_5 }],
    ['EXPECTED_OFFSET_CONFLICT', 409, 409, { 'stream-next-offset': OFFSET_5 }],
    ['PRODUCER_EPOCH_STALE', 409, 403, { 'producer-epoch': '3' }],
    ['PRODUCER_SEQ_CONFLICT', 409, 409, { 'producer-expected-seq': '4', 'producer-received-seq': '9' }],
    ['PRODUCER_EPOCH_START', 400, 400, {}],
    ['RECORD_PRECONDITION_FAILED', 412, 412, { 'stream-record-next': '8', 'stream-next-offset': OFFSET_5 }],
    ['STREAM_GONE', 410, 410, { 'stream-next-offset': OFFSET_5 }],
    ['QUOTA_EXCEEDED', 429, 429, {}],
    ['NO_LEADER', 503, 503, { 'retry-after': '1' }],
    ['BACKPRESSURE', 503, 503, { 'retry-after': '1' }],
    ['DISK_FULL', 507, 507, { 'retry-after': '1' }],
  ];
  for (const [name, bucketed, flat, headers] of rows) {
    code = name;
    for (const [path, status] of [
      ['/b/s', bucketed],
      ['/v1/stream/b/s', flat],
    ] as const) {
      const response = await fetch(`${client}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'a/b' },
        body: 'x',
      });
      assert.equal(response.status, status, `${name} on ${path}`);
      for (const [header, value] of Object.entries(headers)) assert.equal(response.headers.get(header), value, name);
      assert.equal(response.headers.get('content-type'), 'text/plain; charset=utf-8');
      assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
      assert.match(await response.text(), /^[^\n]{10,}\n$/);
    }
  }
  code = 'STREAM_CLOSED';
  const close = async (path: string): Promise<Response> =>
    fetch(`${client}${path}`, { method: 'POST', headers: { 'stream-closed': 'true' } });
  assert.equal((await close('/b/s')).status, 409);
  const flat = await close('/v1/stream/b/s');
  assert.deepEqual([flat.status, ...headersOf(flat, 'stream-closed', 'stream-next-offset')], [204, 'true', OFFSET_5]);
});

test('requests that are refused before a shard is asked', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const post = async (path: string, headers: Record<string, string>, body?: string): Promise<string> => {
    const response = await fetch(`${client}${path}`, {
      method: 'POST',
      headers,
      ...(body === undefined ? {} : { body }),
    });
    return `${response.status} ${await response.text()}`;
  };
  const bytes = new TextEncoder().encode('x');
  const untyped = await fetch(`${client}/b/s`, { method: 'POST', body: bytes });
  assert.match(`${untyped.status} ${await untyped.text()}`, /^400 Content-Type is required/);
  assert.match(await post('/b/s', { 'content-type': 'a/b' }), /^400 the body is empty/);
  assert.match(await post('/b/s', { 'stream-closed': 'false' }), /^400 the body is empty/);
  assert.match(await post('/b/s', { 'producer-id': 'p' }, 'x'), /^400 Producer-Id, Producer-Epoch and/);
  assert.match(
    await post('/b/s', { 'stream-record-match': '-1' }),
    /^400 a request header is malformed: Stream-Record/,
  );
  assert.match(await post('/b/%00', {}, 'x'), /^400 the bucket or stream name is not usable: /);
  assert.match(await post('/b/s/t', {}, 'x'), /^404 no such route/);
  assert.match(await post('/b/s/append-batch', {}, 'x'), /^400 the body is not a batch: .* cut short/);
  assert.match(await post('/__svc/metrics/x', {}, 'x'), /^404/);
  assert.equal(gateway.asked.length, 0);
  gateway.full = true;
  assert.match(
    await post('/b/s', { 'content-type': 'a/b' }, 'x'),
    /^503 the shard takes no more for now: its mailbox is full/,
  );
  const busy = await fetch(`${client}/b/s`);
  assert.deepEqual([busy.status, busy.headers.get('retry-after')], [503, '1']);
});

test('create', async (t) => {
  const { gateway, client } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    reply.flags = REPLY_CREATED;
    reply.contentType = 'text/plain';
  };
  const created = await fetch(`${client}/b/a%2Fb%0D%0Ax`, {
    method: 'PUT',
    headers: { 'content-type': 'text/plain', 'stream-ttl': '60', 'stream-attrs': '{}' },
  });
  assert.equal(created.status, 201);
  assert.deepEqual(headersOf(created, 'location', 'content-type', 'stream-ttl', 'content-length'), [
    '/b/a%2Fb%0D%0Ax',
    'text/plain',
    '60',
    '0',
  ]);
  const { op, stream, ttlSeconds, attributes, payload } = gateway.last;
  assert.deepEqual(
    [op, stream, ttlSeconds, attributes, payload],
    [COMMANDS.create.number, 'a/b\r\nx', 60, '{}', undefined],
  );
  gateway.script = (_asked, reply) => {
    reply.flags = REPLY_CLOSED | REPLY_RECORDS;
    reply.recordNext = 2;
    reply.nextOffset = 5;
  };
  const existing = await fetch(`${client}/v1/stream/b/s`, {
    method: 'PUT',
    headers: { ...JSON_TYPE, 'stream-closed': 'true', 'stream-expires-at': '2040-01-01T00:00:00.5+01:00' },
    body: '[1,2]',
  });
  assert.equal(existing.status, 200);
  assert.deepEqual(
    headersOf(existing, 'location', 'stream-next-offset', 'stream-closed', 'stream-expires-at', 'stream-record-next'),
    [`${client}/v1/stream/b/s`, OFFSET_5, 'true', '2039-12-31T23:00:00.500Z', '2'],
  );
  assert.equal(existing.headers.get('content-type'), 'application/octet-stream', 'none set yet');
  assert.equal(gateway.last.payload?.toString(), '[1,2]');
});

test('catch-up reads, ETags and ranges', async (t) => {
  const { gateway, client } = await startPlanes(t);
  gateway.script = (_asked, reply) => {
    reply.contentType = 'text/plain';
    reply.flags = REPLY_UP_TO_DATE;
    reply.startOffset = 0;
    reply.nextOffset = 5;
    showRead(reply, 77, 0);
    reply.body = new TextEncoder().encode('hello');
  };
  const first = await fetch(`${client}/b/s?offset=-1&max_bytes=100`);
  assert.equal(first.status, 200);
  assert.deepEqual([gateway.last.op, gateway.last.maxBytes], [QUERIES.read.number, 100]);
  assert.equal(await first.text(), 'hello');
  assert.deepEqual(
    headersOf(first, 'content-type', 'stream-next-offset', 'stream-up-to-date', 'stream-closed', 'cache-control'),
    ['text/plain', OFFSET_5, 'true', null, 'no-store'],
  );
  const etag = first.headers.get('etag') ?? '';
  assert.match(etag, /^"[0-9a-f]{16}"$/);
  const same = await fetch(`${client}/b/s`, { headers: { 'if-none-match': `"x", W/${etag}` } });
  assert.deepEqual([same.status, await same.text(), same.headers.get('etag')], [304, '', etag]);
  // Another data directory counts its incarnations from 1 as well: the time of creation tells the streams apart.
  const script = gateway.script;
  gateway.script = (asked, reply) => {
    script(asked, reply);
    showRead(reply, 77, 1_700_000_000_000);
  };
  const other = await fetch(`${client}/b/s`, { headers: { 'if-none-match': etag } });
  assert.equal(other.status, 200);
  await other.arrayBuffer();
  gateway.script = script;
  const now = await fetch(`${client}/b/s?offset=now`);
  assert.equal(now.headers.get('etag'), null);
  await now.arrayBuffer();
  const none = await fetch(`${client}/b/s?max_bytes=0`);
  assert.deepEqual(
    [await none.text(), ...headersOf(none, 'stream-next-offset', 'stream-up-to-date')],
    ['', '00000000000000000000', null],
  );
  gateway.script = (_asked, reply) => {
    reply.flags = REPLY_RECORDS | REPLY_CLOSED | REPLY_UP_TO_DATE;
    reply.contentType = 'application/json';
    reply.recordStart = 3;
    reply.recordNext = 3;
  };
  const records = await fetch(`${client}/b/s?record=3`);
  assert.equal(await records.text(), '[]');
  assert.deepEqual(
    headersOf(
      records,
      'stream-record-first',
      'stream-record-start',
      'stream-record-next',
      'stream-closed',
      'stream-extensions',
    ),
    ['0', '3', '3', 'true', 'json-record-coordinates-v1'],
  );
  const invalid = await fetch(`${client}/b/s?offset=0,1`);
  assert.deepEqual(
    [invalid.status, await invalid.text()],
    [400, 'a query parameter is malformed: the offset must be -1, now, or up to 20 decimal digits\n'],
  );
});

test('HEAD and DELETE', async (t) => {
  const { gateway, client, port } = await startPlanes(t);
  gateway.script = (asked, reply) => {
    if (asked.op !== QUERIES.head.number) return;
    reply.contentType = 'application/json';
    reply.flags = REPLY_RECORDS | REPLY_CLOSED;
    const lifetime = { ttlSeconds: 60, expiresAtMs: -1 };
    const where = { tag: '0123456789abcdef', hotStart: 0, incarnation: 1, snapshot: undefined };
    QUERIES.head.result.write(reply, { ...where, ...lifetime });
    reply.startOffset = 2;
    reply.nextOffset = 5;
    reply.recordFirst = 1;
    reply.recordNext = 4;
  };
  const head = await fetch(`${client}/b/s`, { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.deepEqual(
    headersOf(
      head,
      ...['content-type', 'stream-next-offset', 'stream-up-to-date', 'stream-retained-offset', 'stream-ttl'],
      ...[
        'stream-expires-at',
        'stream-closed',
        'stream-record-first',
        'stream-record-next',
        'cache-control',
        'content-length',
      ],
    ),
    ['application/json', OFFSET_5, 'true', '2', '60', null, 'true', '1', '4', 'no-store', null],
  );
  const removed = await fetch(`${client}/b/s`, { method: 'DELETE' });
  assert.deepEqual([removed.status, gateway.last.op], [204, COMMANDS.deleteStream.number]);
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber('STREAM_NOT_FOUND');
  };
  const missing = await requestOnce(port, 'HEAD', '/b/s');
  assert.deepEqual([missing.status, missing.body.length], [404, 0]);
  const invalid = await requestOnce(port, 'HEAD', '/b/%00');
  assert.deepEqual([invalid.status, invalid.body.length], [400, 0]);
});

test('attributes', async (t) => {
  const { gateway, client } = await startPlanes(t);
  const put = async (headers: Record<string, string>, body: string): Promise<number> =>
    (await fetch(`${client}/b/s/attrs`, { method: 'PUT', headers, body })).status;
  assert.equal(await put({ 'content-type': 'application/json; charset=utf-8' }, '{"title":"x"}'), 204);
  assert.deepEqual([gateway.last.op, gateway.last.attributes], [COMMANDS.setAttributes.number, '{"title":"x"}']);
  assert.equal(await put({ 'content-type': 'text/plain' }, '{}'), 400);
  assert.equal(await put(JSON_TYPE, ''), 400);
  assert.equal(await put(JSON_TYPE, ' '.repeat(200_000)), 400);
  assert.equal(gateway.asked.length, 1);
  const none = await fetch(`${client}/b/s/attrs`);
  assert.deepEqual(
    [gateway.last.op, await none.text(), none.headers.get('content-type')],
    [QUERIES.getAttributes.number, '{}', 'application/json'],
  );
  gateway.script = (_asked, reply) => {
    QUERIES.getAttributes.result.write(reply, { json: new TextEncoder().encode('{"title":"x"}') });
  };
  assert.equal(await (await fetch(`${client}/b/s/attrs`)).text(), '{"title":"x"}');
  const post = await fetch(`${client}/b/s/attrs`, { method: 'POST', body: 'x' });
  assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD, PUT, OPTIONS']);
});

test('writes with a condition are refused until every node understands them, others pass', async (t) => {
  let isUnderstood = false;
  const { gateway, port } = await startPlanes(t, { understandsConditions: () => isUnderstood });
  const codeOf = async (method: string, condition: Record<string, string>): Promise<string | undefined> => {
    const headers = { 'content-type': 'a/b', ...condition };
    const answer = await requestOnce(port, method, '/b/s', headers, method === 'DELETE' ? undefined : Buffer.from('x'));
    return answer.headers.get('millrace-error');
  };
  for (const method of ['POST', 'PUT', 'DELETE']) {
    assert.equal(await codeOf(method, {}), undefined);
    for (const condition of ['if-match', 'if-none-match'])
      assert.equal(await codeOf(method, { [condition]: '*' }), 'UPGRADE_UNFINISHED');
  }
  const expected = { 'content-type': 'a/b', 'stream-expected-offset': '5' };
  for (const path of ['/b/s', '/v1/stream/b/s', '/b/s/append-batch']) {
    const answer = await requestOnce(port, 'POST', path, expected, Buffer.from('\0\0\0\x01x'));
    assert.deepEqual([answer.status, answer.headers.get('millrace-error')], [503, 'UPGRADE_UNFINISHED'], path);
  }
  assert.equal(gateway.asked.length, 3);
  isUnderstood = true;
  for (const method of ['POST', 'PUT', 'DELETE']) assert.equal(await codeOf(method, { 'if-match': '*' }), undefined);
  assert.equal(gateway.asked.length, 6);
});
