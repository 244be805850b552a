// Our own client for GET: answers in pieces of any size and form, connections that die at any moment, and what is no HTTP at all.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { type TestContext, describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type GetAnswer, HttpGets } from '../../src/cold/http-get.ts';
import { HttpResponse } from '../../src/cold/http-response.ts';

const CONNECT_MS = 5000;

interface Read {
  readonly response: HttpResponse;
  readonly body: string;
}

function readIn(text: string, pieceBytes: number): Read {
  let body = '';
  const response = new HttpResponse((bytes) => {
    body += Buffer.from(bytes).toString('latin1');
  });
  const input = Buffer.from(text, 'latin1');
  for (let at = 0; at < input.length; at += pieceBytes) response.feed(input.subarray(at, at + pieceBytes));
  return { response, body };
}

describe('an answer', () => {
  const chunked =
    'HTTP/1.1 206 x\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, world!!!\r\n0\r\nT: 1\r\n\r\n';
  const answers = [
    ['HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello', 'hello', true],
    ['HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n', '', true],
    ['HTTP/1.1 204 No Content\r\n\r\n', '', true],
    ['HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 'ok', true],
    ['HTTP/1.1 200 OK\nContent-Length: 2\n\nok', 'ok', true],
    ['HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok', 'ok', false],
    ['HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', 'ok', false],
    [chunked, 'hello, world!!!', true],
  ] as const;

  it('is complete at its last byte and not before, in pieces of any size', () => {
    for (const [text, expected, isReusable] of answers) {
      for (let pieceBytes = 1; pieceBytes <= text.length; pieceBytes++) {
        const { response, body } = readIn(text, pieceBytes);
        assert.deepEqual([response.isDone, body, response.isReusable], [true, expected, isReusable], text);
      }
      assert.equal(readIn(text.slice(0, -1), 3).response.isDone, false, text);
    }
  });

  it('without a length ends with its connection', () => {
    const { response, body } = readIn('HTTP/1.1 200 OK\r\n\r\nall of it', 4);
    assert.deepEqual([response.isDone, body], [false, 'all of it']);
    response.close();
    assert.deepEqual([response.isDone, response.isReusable], [true, false]);
    const cut = readIn('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall', 4).response;
    cut.close();
    assert.equal(cut.isDone, false);
  });

  it('with more behind it leaves a connection that is not used again', () => {
    assert.equal(readIn('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200', 1000).response.isReusable, false);
  });

  it('keeps headers by their name in lower case', () => {
    const { response } = readIn('HTTP/1.1 404 x\r\nA: 1\r\na: 2\r\n__proto__: 3\r\nContent-Length: 0\r\n\r\n', 7);
    assert.deepEqual([response.headers['a'], Object.getPrototypeOf(response.headers)], ['1, 2', Object.prototype]);
  });

  it('that is none throws', () => {
    const bad = [
      'SSH-2.0\r\n',
      'HTTP/2 200\r\n',
      'HTTP/1.1 20\r\n',
      'HTTP/1.1 200 OK\r\nno header\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n',
      `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(70_000)}`,
    ];
    for (const text of bad) assert.throws(() => readIn(text, 5), Error, text.slice(0, 60));
  });
});

/** Answers each request with what `answer` does to its connection; `n` counts requests, from 1. */
async function serve(
  t: TestContext,
  answer: (socket: Socket, n: number) => void,
): Promise<{ get: (signal?: AbortSignal) => Promise<GetAnswer & { text: string }>; connections: () => number }> {
  let connections = 0;
  let requests = 0;
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    connections++;
    sockets.push(socket);
    socket.on('error', () => undefined);
    let input = '';
    socket.on('data', (bytes) => {
      input += bytes.toString('latin1');
      for (let end = input.indexOf('\r\n\r\n'); end >= 0; end = input.indexOf('\r\n\r\n')) {
        assert.match(input, /^GET \/b\/key\?x=1 HTTP\/1\.1\r\nhost: h\r\n/);
        input = input.slice(end + 4);
        answer(socket, ++requests);
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const gets = new HttpGets(CONNECT_MS);
  t.after(() => {
    gets.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const request = { hostname: '127.0.0.1', port, path: '/b/key?x=1', headers: { host: 'h' } };
  const get = async (signal = new AbortController().signal): Promise<GetAnswer & { text: string }> => {
    let text = '';
    const answered = await gets.get(
      request,
      (bytes) => (text += Buffer.from(bytes).toString('latin1')),
      () => (text = ''),
      signal,
    );
    return { ...answered, text };
  };
  return { get, connections: () => connections };
}

const OK = 'HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhello';

describe('a connection', () => {
  it('is used again, and gives errors to the caller with their bodies', async (t) => {
    const { get, connections } = await serve(t, (socket, n) =>
      socket.write(n === 2 ? 'HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n<E/>' : OK),
    );
    assert.equal((await get()).text, 'hello');
    const { statusCode, text, body } = await get();
    assert.deepEqual([statusCode, text, Buffer.from(body).toString()], [404, '', '<E/>']);
    assert.equal((await get()).text, 'hello');
    assert.equal(connections(), 1);
  });

  it('that was closed while it was idle is replaced without the caller noticing', async (t) => {
    const { get, connections } = await serve(t, (socket, n) => {
      // At once: the client learns of it before, with, or after its next request.
      if (n % 2 === 1) socket.write(OK);
      else socket.destroy();
      if (n === 3) socket.destroySoon();
    });
    assert.equal((await get()).text, 'hello');
    assert.equal((await get()).text, 'hello', 'the second request is lost with its connection, and repeated');
    await setImmediate();
    assert.equal(connections(), 2);
  });

  it('that dies within an answer is an error that says so, and not repeated', async (t) => {
    const { get, connections } = await serve(t, (socket, n) => {
      if (n === 1) socket.write(OK);
      else socket.end(OK.slice(0, -2));
    });
    await get();
    await assert.rejects(get(), { code: 'ECONNRESET' });
    assert.equal(connections(), 1);
  });

  it('that is new and dies at once is not tried for ever', async (t) => {
    const { get, connections } = await serve(t, (socket) => socket.destroy());
    await assert.rejects(get(), { code: 'ECONNRESET' });
    assert.equal(connections(), 1);
  });

  it('is given up when the caller does not wait any longer, and never used again', async (t) => {
    const { get, connections } = await serve(t, (socket, n) => {
      if (n > 1) socket.write(OK);
    });
    const patience = new AbortController();
    const waiting = get(patience.signal);
    await setImmediate();
    patience.abort(new Error('too late'));
    await assert.rejects(waiting, /too late/);
    assert.equal((await get()).text, 'hello');
    assert.equal(connections(), 2);
    await assert.rejects(get(AbortSignal.abort(new Error('never'))), /never/);
  });

  it('that speaks something else is closed', async (t) => {
    const { get } = await serve(t, (socket) => socket.write('220 mail ready\r\n'));
    await assert.rejects(get(), /not HTTP/);
  });

  it('to nobody is an error', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const gets = new HttpGets(CONNECT_MS);
    const request = { hostname: '127.0.0.1', port, path: '/', headers: {} };
    const { signal } = new AbortController();
    await assert.rejects(
      gets.get(
        request,
        () => undefined,
        () => undefined,
        signal,
      ),
      { code: 'ECONNREFUSED' },
    );
    const evil = { ...request, headers: { a: 'b\r\nc: d' } };
    await assert.rejects(
      gets.get(
        evil,
        () => undefined,
        () => undefined,
        signal,
      ),
      /line break/,
    );
  });
});
