// Which requests to client planes are sent again, to which node, and what is said when none takes them.
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { Failure, NotThere } from '../../src/nodes/failure.ts';
import { ask } from '../../src/nodes/http-client.ts';
import { type Call, StreamClient, expectStatus } from '../../src/operator/streams/stream-client.ts';
import { freePort } from '../support/ports.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

let handlers: Handler[] = [];
let seen: IncomingMessage[] = [];
let server: Server;
let url = '';
const waits: string[] = [];

before(async () => {
  server = createServer((request, response) => {
    seen.push(request);
    request.resume().on('end', () => handlers.shift()?.(request, response));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const READ: Call = { method: 'GET', path: '/v1/stream/a/..', mayRepeat: true };
const WRITE: Call = { method: 'POST', path: '/v1/stream/a/b', body: Buffer.from('x'), mayRepeat: false };
const says =
  (status: number, code = ''): Handler =>
  (_, response) =>
    response.writeHead(status, code === '' ? {} : { 'millrace-error': code }).end('its sentence\n');
const hangsUp: Handler = (request) => request.socket.destroy();

function clientOf(urls: readonly string[], patienceMs = 60_000, refusedPatienceMs = patienceMs): StreamClient {
  const { signal } = new AbortController();
  const waiting = (why: string): void => void waits.push(why);
  const patience = { timeoutMs: 60_000, patienceMs, refusedPatienceMs };
  return new StreamClient(urls, { ...patience, token: 'secret', ca: undefined, signal, waiting });
}

function answering(...all: Handler[]): void {
  handlers = all;
  seen = [];
}

test('a read is asked again; the path and the token go as they are', async () => {
  answering(says(503), hangsUp, says(507), says(200));
  assert.equal((await clientOf([url]).call(READ)).status, 200);
  assert.equal(seen.length, 4);
  assert.deepEqual([seen[0]?.url, seen[0]?.headers.authorization], ['/v1/stream/a/..', 'Bearer secret']);
  assert.equal(waits.length, 3);
});

test('a call leaves nothing behind at a signal that lives on', async (t) => {
  const any = t.mock.method(AbortSignal, 'any');
  const { signal } = new AbortController();
  answering(says(200), says(200));
  const [timeoutMs, ca] = [60_000, undefined];
  const patience = { patienceMs: 0, refusedPatienceMs: 0, waiting: () => undefined };
  await new StreamClient([url], { timeoutMs, ca, token: '', signal, ...patience }).call(READ);
  await ask({ timeoutMs, ca, token: '', signal }, 'GET', url, { withToken: false, mayEnd: true });
  assert.deepEqual([any.mock.callCount(), getEventListeners(signal, 'abort').length], [0, 0]);
});

test('the next node is asked at once, and stays the one that is asked', async () => {
  const client = clientOf([`http://127.0.0.1:${await freePort()}`, url]);
  waits.length = 0;
  answering(says(204), says(204));
  assert.equal((await client.call(WRITE)).status, 204, 'a write too: nothing was sent to the first');
  assert.equal((await client.call(READ)).status, 204);
  assert.deepEqual([seen.length, waits], [2, []]);
});

test('where a person waits, nodes that refuse the connection are asked once each', async () => {
  const dead = `http://127.0.0.1:${await freePort()}`;
  waits.length = 0;
  await assert.rejects(
    clientOf([dead, dead], 60_000, 0).call(READ),
    /cannot be reached \(connection refused\); --retry-secs waits for a node$/,
  );
  assert.deepEqual(waits, []);
  answering(says(204), says(503), says(200));
  assert.equal((await clientOf([dead, url], 60_000, 0).call(READ)).status, 204, 'the second of the turn is asked');
  assert.equal((await clientOf([url, dead], 60_000, 0).call(READ)).status, 200, 'a node that answers 503 is there');
});

test('a write is sent again only if it certainly had no effect', async () => {
  answering(says(503, 'NO_LEADER'), says(204));
  assert.equal((await clientOf([url]).call(WRITE)).status, 204);
  for (const unknown of [says(503, 'OUTCOME_UNKNOWN'), says(502), hangsUp]) {
    answering(unknown, says(204));
    await assert.rejects(clientOf([url]).call(WRITE), /; whether it took effect is not known$/);
    assert.equal(seen.length, 1);
  }
  answering(hangsUp, says(204));
  assert.equal((await clientOf([url]).call({ ...WRITE, mayRepeat: true })).status, 204);
});

test('a node that asks for a pause gets it, the shortest of all, and no longer than the patience', async () => {
  const asks =
    (seconds: string): Handler =>
    (_, response) =>
      response.writeHead(503, { 'retry-after': seconds }).end();
  const timed = async (work: Promise<unknown>): Promise<number> => {
    const startMs = performance.now();
    await work;
    return performance.now() - startMs;
  };
  answering(asks('1'), says(200));
  assert((await timed(clientOf([url]).call(READ))) >= 990);
  for (const nonsense of ['Wed, 21 Oct 2065 07:28:00 GMT', '-99', '1e9', '99s', '']) {
    answering(asks(nonsense), says(200));
    // Whatever is taken for a pause would be the longest, of 30 s.
    assert((await timed(clientOf([url]).call(READ))) < 20_000, nonsense);
  }
  answering(asks('30'), says(503), says(200));
  assert((await timed(clientOf([url, url]).call(READ))) < 20_000, 'the second node asked for none');
  answering(asks('999999999'), asks('999999999'));
  const hopeless = assert.rejects(clientOf([url], 200).call(READ), /it answered 503/);
  assert((await timed(hopeless)) < 20_000);
});

test('a header that cannot be sent is said at once', async () => {
  answering(says(200));
  const call = { ...WRITE, headers: { 'content-type': 'text/plain\nx: y' } };
  await assert.rejects(clientOf([url]).call(call), /content-type, "text\/plain\\nx: y", has characters/);
  assert.equal(seen.length, 0);
});

test('what ends in a sentence', async () => {
  answering(says(503));
  await assert.rejects(clientOf([url], 0).call(READ), /: it answered 503 \(its sentence\)$/);
  const refused = async (status: number, code = ''): Promise<Error> => {
    answering(says(status, code));
    const answer = await clientOf([url]).call(READ);
    try {
      expectStatus(answer, 'a/b', 200);
    } catch (error) {
      if (error instanceof Failure) return error;
    }
    return assert.fail(`${status} was taken`);
  };
  assert.match((await refused(401)).message, /^a\/b: it wants a bearer token, .*MILLRACE_CLIENT_TOKEN/);
  assert.match((await refused(502, 'COLD_OBJECT_BAD')).message, /^a\/b: it answered 502 \(its sentence\)$/);
  assert((await refused(404, 'STREAM_NOT_FOUND')) instanceof NotThere);
  assert(!((await refused(404)) instanceof NotThere), 'a proxy says so');
  assert((await refused(410, 'STREAM_DELETED')) instanceof NotThere);
  assert(!((await refused(410, 'STREAM_GONE')) instanceof NotThere), 'it is there, above that offset');
});
