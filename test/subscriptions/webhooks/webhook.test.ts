// One delivery to misbehaving receivers: it always ends.
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { resolving } from '../../../src/subscriptions/webhooks/webhook-url.ts';
import { type DeliveryResult, deliver } from '../../../src/subscriptions/webhooks/webhook.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

interface Call {
  readonly timeoutMs?: number;
  /** Once the request has come. */
  readonly afterwards?: () => void;
}

/** Delivers to a receiver that answers each request as `answer` says. */
async function deliverTo(
  answer: (socket: Socket) => void,
  { timeoutMs, afterwards }: Call = {},
): Promise<DeliveryResult> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => {
      answer(socket);
      afterwards?.();
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  try {
    return await deliver({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      rules: { enabled: true, allowLocal: true },
      body: new Uint8Array(2),
      signature: '',
      runtime: PROCESS_RUNTIME,
      signal: new AbortController().signal,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

const answering =
  (text: string) =>
  (socket: Socket): void =>
    void socket.write(text);

test('answers', { timeout: 60_000 }, async () => {
  const ok = (body: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  assert.deepEqual(await deliverTo(answering(ok('{"done":true}'))), { result: 'done' });
  assert.deepEqual(await deliverTo(answering(ok('{"done":1}'))), { result: 'taken' });
  assert.deepEqual(await deliverTo(answering('HTTP/1.1 204 No Content\r\n\r\n')), { result: 'taken' });
});

test('an answer that is none has failed', { timeout: 60_000 }, async () => {
  for (const text of [
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n',
    'HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n',
    '\0garbage\r\n\r\n',
    `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`,
    `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(100_000)}`,
  ]) {
    assert.equal((await deliverTo(answering(text))).result, 'failed', text.slice(0, 40));
  }
  const cut = (socket: Socket): void => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx');
  assert.equal((await deliverTo(cut)).result, 'failed');
});

test(
  'a receiver that is silent, or stops in the middle, is waited for no longer than it may take',
  { timeout: 60_000 },
  async () => {
    for (const text of ['', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx']) {
      // Timers that only garbage knows of are lost here.
      const result = await deliverTo(answering(text), { timeoutMs: 300, afterwards: () => setImmediate(collect) });
      assert.deepEqual(result, { result: 'failed', reason: 'no answer in time' });
    }
  },
);

/** A name server that knows one host, and does not answer for others. */
async function nameServer(known: string): Promise<{ readonly at: string; readonly close: () => void }> {
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const labels: string[] = [];
    let at = 12;
    for (let size = query[at] ?? 0; size > 0; size = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + size));
      at += 1 + size;
    }
    if (labels.join('.') !== known) return;
    const isV4 = query.readUInt16BE(at + 1) === 1;
    const head = Buffer.from(query.subarray(0, at + 5));
    head.writeUInt16BE(0x8180, 2);
    head.writeUInt16BE(isV4 ? 1 : 0, 6);
    head.writeUInt32BE(0, 8);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 8, 8, 4, 4]);
    socket.send(isV4 ? Buffer.concat([head, record]) : head, from.port, from.address);
  });
  await new Promise<void>((resolve) => {
    socket.bind(0, '127.0.0.1', resolve);
  });
  return { at: `127.0.0.1:${socket.address().port}`, close: () => socket.close() };
}

test('names are resolved, and one without an answer delays no other', { timeout: 60_000 }, async () => {
  const server = await nameServer('there.example');
  const resolve = resolving([server.at]);
  const ask = (name: string): Promise<unknown> =>
    new Promise((done) => {
      resolve(name, (error, found) => done(error === null ? found : 'error'));
    });
  let silent = 0;
  const others = Array.from({ length: 8 }, (_, i) => ask(`silent${i}.example`).finally(() => silent++));
  assert.deepEqual(await ask('there.example'), [{ address: '8.8.4.4', family: 4 }]);
  assert.equal(silent, 0);
  assert.deepEqual(await ask('10.0.0.1'), [{ address: '10.0.0.1', family: 4 }]);
  // They end with an error when the peer is gone, or in time.
  server.close();
  assert.deepEqual(new Set(await Promise.all(others)), new Set(['error']));
});
