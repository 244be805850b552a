// Requests whose end is ambiguous, byte by byte: 400 and the end of the connection, before a handler acts.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { type Rig, startPlanes } from './planes.ts';

const CHUNKS = '3\r\nabc\r\n0\r\n\r\n';
const POST = 'POST /b/s HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\n';
const SMUGGLED = 'PUT /smuggled/x HTTP/1.1\r\nHost: x\r\n\r\n';

/** Header lines and the body that one of the readings gives them. */
const AMBIGUOUS: readonly (readonly [string, string, string])[] = [
  ['two lengths that differ', 'Content-Length: 3\r\nContent-Length: 4\r\n', 'abcd'],
  ['two equal lengths', 'Content-Length: 3\r\nContent-Length: 3\r\n', 'abc'],
  ['an empty length', 'Content-Length:\r\n', ''],
  ['an empty length before a good one', 'Content-Length:\r\nContent-Length: 3\r\n', 'abc'],
  ['an empty length behind a good one', 'Content-Length: 3\r\nContent-Length: \r\n', 'abc'],
  ['a list of lengths', 'Content-Length: 3, 3\r\n', 'abc'],
  ['a signed length', 'Content-Length: +3\r\n', 'abc'],
  ['a hexadecimal length', 'Content-Length: 0x3\r\n', 'abc'],
  ['a length with blanks', 'Content-Length: 3 3\r\n', 'abc'],
  ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 3\r\n', CHUNKS],
  ['chunks and an empty length', 'Transfer-Encoding: chunked\r\nContent-Length:\r\n', CHUNKS],
  ['a length and an empty encoding', 'Content-Length: 3\r\nTransfer-Encoding:\r\n', 'abc'],
  ['an empty encoding', 'Transfer-Encoding:\r\n', CHUNKS],
  ['an empty encoding before chunked', 'Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n', CHUNKS],
  ['chunked twice', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', CHUNKS],
  ['chunked in a list', 'Transfer-Encoding: chunked, chunked\r\n', CHUNKS],
  ['another coding before chunked', 'Transfer-Encoding: gzip, chunked\r\n', CHUNKS],
  ['another coding', 'Transfer-Encoding: gzip\r\n', CHUNKS],
  ['identity', 'Transfer-Encoding: identity\r\n', CHUNKS],
  ['almost chunked', 'Transfer-Encoding: xchunked\r\n', CHUNKS],
  ['a parameter of chunked', 'Transfer-Encoding: chunked;a=b\r\n', CHUNKS],
];

/** Everything that comes back until the connection ends. */
function talk(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    // A reset is an end too.
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
    socket.on('connect', () => socket.write(Buffer.from(bytes, 'latin1')));
  });
}

function statuses(text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
}

for (const [what, headers, body] of AMBIGUOUS) {
  test(`${what}: 400, the connection ends, nothing is done`, async (t) => {
    const rig = await startPlanes(t);
    for (const port of [rig.port, rig.adminPort]) {
      for (const head of [POST, POST.replace('POST', 'GET'), POST.replace('POST /b/s', 'PUT /__svc/quota/b')]) {
        // In one piece; head and body apart; and with a request hidden behind it, which comes at once.
        assert.deepEqual(statuses(await talk(port, `${head}${headers}\r\n${body}`)), [400]);
        await refusedBeforeTheBody(port, `${head}${headers}\r\n`);
        const hidden = statuses(await talk(port, `${head}${headers}\r\n${body}${SMUGGLED}`));
        assert.ok(hidden.length <= 1 && hidden.every((status) => status >= 400), `${hidden.join()}`);
      }
    }
    nothingWasDone(rig);
  });
}

async function refusedBeforeTheBody(port: number, head: string): Promise<void> {
  const client = await RawClient.connect(port);
  const answer = await client.send(Buffer.from(head, 'latin1'));
  assert.equal(answer.status, 400);
  assert.equal(answer.headers.get('connection'), 'close');
  // The library's own refusals have no headers of ours.
  if (answer.headers.has('cache-control')) assert.equal(answer.headers.get('millrace-error'), 'INVALID_HEADER');
  await client.closed;
}

function nothingWasDone({ gateway, planes }: Rig): void {
  assert.deepEqual(gateway.asked, []);
  assert.equal(planes.openRequests(), 0);
}

test('one length, or chunks, are taken as before', async (t) => {
  const { gateway, port } = await startPlanes(t);
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  for (const [headers, body] of [
    ['Content-Length: 3\r\n', 'abc'],
    ['Content-Length:\t3 \r\n', 'abc'],
    ['Content-Length: 03\r\n', 'abc'],
    ['Transfer-Encoding: chunked\r\n', CHUNKS],
    ['Transfer-Encoding: Chunked\r\n', CHUNKS],
  ] as const) {
    assert.equal((await client.send(Buffer.from(`${POST}${headers}\r\n${body}`))).status, 204);
    assert.equal(gateway.last.payload?.toString(), 'abc');
  }
});

/** The library's own refusals, which close the connection and reach no handler. */
const LIBRARY: readonly (readonly [string, string])[] = [
  ['a folded header line', 'POST /b/s HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n 2\r\n\r\n'],
  ['a blank before the colon', 'POST /b/s HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\nab'],
  ['lines that end with LF', 'POST /b/s HTTP/1.1\nHost: x\n\n'],
  ['one line that ends with LF', 'POST /b/s HTTP/1.1\r\nHost: x\nX: 1\r\n\r\n'],
  ['no Host', 'POST /b/s HTTP/1.1\r\n\r\n'],
  ['two Hosts', 'POST /b/s HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n'],
  ['HTTP/1.0', 'GET /b/s HTTP/1.0\r\nHost: x\r\n\r\n'],
  ['an absolute target', 'GET http://x/b/s HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['a target that is a star', 'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n'],
];

for (const [what, bytes] of LIBRARY) {
  test(`${what}: refused by the library, and the connection ends`, async (t) => {
    const rig = await startPlanes(t);
    const [status, ...more] = statuses(await talk(rig.port, bytes));
    assert.ok(status === 400 || status === 505, `${status}`);
    assert.deepEqual(more, []);
    nothingWasDone(rig);
  });
}

test('requests in a row: those that are answered at once all get their answers, in order', async (t) => {
  const { port } = await startPlanes(t);
  const client = await RawClient.connect(port);
  t.after(() => client.destroy());
  const one = 'GET /nowhere/a/b/c HTTP/1.1\r\nHost: x\r\n\r\n';
  const two = 'OPTIONS /b/s HTTP/1.1\r\nHost: x\r\n\r\n';
  const first = client.send(Buffer.from(one + two + one));
  const second = client.send(Buffer.alloc(0));
  const third = client.send(Buffer.alloc(0));
  assert.deepEqual([(await first).status, (await second).status, (await third).status], [404, 204, 404]);
});

test('a request behind one that waits ends the connection: no answer is given twice or to the wrong one', async (t) => {
  const { gateway, port, planes } = await startPlanes(t);
  const one = 'GET /b/one HTTP/1.1\r\nHost: x\r\n\r\n';
  const two = 'GET /b/two HTTP/1.1\r\nHost: x\r\n\r\n';
  gateway.script = () => false;
  // In one piece.
  assert.deepEqual(statuses(await talk(port, one + two)), []);
  // The second when the first has reached its shard.
  const client = await RawClient.connect(port);
  const arrived = gateway.nextRequest();
  const lost = assert.rejects(client.send(Buffer.from(one)));
  await arrived;
  client.socket.write(two);
  await lost;
  await client.closed;
  assert.ok(
    gateway.asked.every(({ stream }) => stream === 'one'),
    'the second was never read',
  );
  gateway.release();
  assert.equal(planes.openRequests(), 0);
});
