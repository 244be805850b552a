// A bootstrap holds its snapshot until the first read has been answered: counted with what waits for slow clients, and
// given back.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { PATIENCE_MS, until } from '../support/until.ts';
import { startPlanes } from './planes.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { READ_FLAG_NO_TOUCH, showRead } from '../../src/protocol/queries/read.ts';
import { READ_NOW, READ_OFFSET } from '../../src/protocol/read-fields.ts';

const MIB = 1024 * 1024;
/** Bound of what may wait in a process (unsent.ts). */
const BOUND = 128;

const NO_SNAPSHOT = { offset: -1, size: 0, digest: '', bytes: new Uint8Array(0) };

/** An answer in parts of one message of so many bytes. */
function oneMessage(size: number): Buffer {
  const body = Buffer.alloc(8 + size);
  body.writeUint32LE(1, 0);
  body.writeUint32LE(size, 4);
  return body;
}

test('snapshots that wait for the first read are bounded together, and leave with their readers', async (t) => {
  const { gateway, client, planes } = await startPlanes(t);
  let tail = 10;
  gateway.script = (asked, reply) => {
    if (asked.op !== QUERIES.snapshot.number) return false;
    QUERIES.snapshot.result.write(reply, {
      offset: 0,
      incarnation: 1,
      size: MIB,
      digest: 'digest',
      bytes: new Uint8Array(MIB),
    });
    reply.contentType = 'text/plain';
    reply.nextOffset = tail;
    return true;
  };
  const leaving = new AbortController();
  const url = `${client}/b/s/bootstrap`;
  const waiting = Array.from({ length: BOUND }, () => fetch(url, { signal: leaving.signal }).catch(() => undefined));
  await until('all reads are under way', () => Promise.resolve(gateway.heldCount === BOUND));
  const refused = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1'], await refused.text());
  leaving.abort();
  await Promise.all(waiting);
  await until('they are forgotten', () => Promise.resolve(planes.openRequests() === 0));
  tail = 0;
  const answer = await fetch(url);
  assert.equal(answer.status, 200);
  assert.ok((await answer.text()).length > MIB);
});

test('large messages that slow readers of bootstraps have not taken are bounded together', async (t) => {
  const { gateway, port, client, planes } = await startPlanes(t);
  const message = oneMessage(16 * MIB);
  gateway.script = ({ op }, reply) => {
    if (op === QUERIES.status.number) return true;
    if (op === QUERIES.read.number) return false;
    QUERIES.snapshot.result.write(reply, { ...NO_SNAPSHOT, incarnation: 1 });
    reply.nextOffset = 16 * MIB;
    return true;
  };
  const sockets = Array.from({ length: 12 }, () => connect(port, '127.0.0.1'));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) {
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write('GET /b/s/bootstrap HTTP/1.1\r\nHost: x\r\n\r\n');
  }
  await until('all reads are under way', () => Promise.resolve(gateway.heldCount === sockets.length));
  gateway.release((_, reply) => {
    showRead(reply, 1, 0);
    reply.nextOffset = 16 * MIB;
    reply.body = message;
  });
  // Seven of them, with a head each, are all that fits.
  await until('the others are cut', () => Promise.resolve(planes.openRequests() === 7));
  const metrics = (await (await fetch(`${client}/__svc/metrics`)).json()) as Record<string, number>;
  const unsent = metrics['http_unsent_answer_bytes'] ?? 0;
  assert.ok(unsent > 7 * 16 * MIB && unsent <= BOUND * MIB, `${unsent} bytes wait`);
  for (const socket of sockets) socket.destroy();
  await until('they are forgotten', () => Promise.resolve(planes.openRequests() === 0));
});

test('a bootstrap renews the lifetime once, with messages and without', async (t) => {
  const { gateway, client } = await startPlanes(t);
  let tail = 0;
  gateway.script = ({ op }, reply) => {
    if (op === QUERIES.snapshot.number) {
      QUERIES.snapshot.result.write(reply, { ...NO_SNAPSHOT, incarnation: 1 });
      reply.nextOffset = tail;
    } else {
      showRead(reply, 1, 0);
      reply.nextOffset = 1;
      reply.body = oneMessage(1);
    }
  };
  for (const method of ['GET', 'HEAD']) {
    for (tail of [0, 1]) {
      gateway.asked.length = 0;
      assert.equal((await (await fetch(`${client}/b/s/bootstrap`, { method })).text()) === '', method === 'HEAD');
      const touches = gateway.asked.filter((asked) => (asked.readFlags & READ_FLAG_NO_TOUCH) === 0);
      const reads = touches.filter(({ op }) => op === QUERIES.read.number);
      assert.deepEqual(
        reads.map(({ mode }) => mode),
        method === 'HEAD' ? [] : [tail === 0 ? READ_NOW : READ_OFFSET],
        `${method} of a stream with its tail at ${tail}`,
      );
    }
  }
});
