// Smuggling through real proxies that share their node connections among clients: whatever an attacker sends, other
// clients get their own answers, and no request comes out of a body.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { proxyMissing, startHaproxy, startNginx } from '../support/proxies.ts';
import { withServer } from '../support/server.ts';

/** The proxies refuse it: when the node sees it, it came past them. */
const denied = '/smuggled';
const HIDDEN = 'PUT /smuggled/x HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n';
const POST = 'POST /b/attacked HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n';
const chunked = (lines: string): string => `${POST}Transfer-Encoding: chunked\r\n\r\n${lines}`;

const ATTACKS: readonly (readonly [string, string])[] = [
  ['two lengths', `${POST}Content-Length: ${HIDDEN.length}\r\nContent-Length: 0\r\n\r\n${HIDDEN}`],
  ['two lengths, the other way', `${POST}Content-Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  ['two equal lengths', `${POST}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc${HIDDEN}`],
  ['an empty length first', `${POST}Content-Length:\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  ['an empty length', `${POST}Content-Length:\r\n\r\n${HIDDEN}`],
  ['a list of lengths', `${POST}Content-Length: 0, ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  [
    'a length and chunks',
    `${POST}Content-Length: ${HIDDEN.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ],
  ['an unknown coding', `${POST}Content-Length: ${HIDDEN.length}\r\nTransfer-Encoding: xchunked\r\n\r\n${HIDDEN}`],
  [
    'a coding with a tab',
    `${POST}Content-Length: ${HIDDEN.length}\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n${HIDDEN}`,
  ],
  ['a coding with a form feed', `${POST}Transfer-Encoding: \x0cchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${HIDDEN}`],
  ['two codings', `${POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${HIDDEN}`],
  ['a folded coding', `${POST}Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${HIDDEN}`],
  [
    'a blank before the colon',
    `${POST}Transfer-Encoding : chunked\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`,
  ],
  ['a header without a name', `${POST}: x\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  ['an underscore for a dash', `${POST}Content_Length: 0\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  ['chunk lines that end with LF', chunked(`3\nabc\n0\n\n${HIDDEN}`)],
  ['a chunk of another end', chunked(`3\r\nabcXX0\r\n\r\n${HIDDEN}`)],
  ['a size behind 9', chunked(`:\r\n0123456789\r\n0\r\n\r\n${HIDDEN}`)],
  ['a size behind f', chunked(`g\r\n0123456789abcdef\r\n0\r\n\r\n${HIDDEN}`)],
  ['a size with a word', chunked(`3 x\r\nabc\r\n0\r\n\r\n`)],
  ['an extension of a chunk', chunked(`3;a=b\r\nabc\r\n0\r\n\r\n`)],
  ['an extension with LF', chunked(`3;a\n\r\nabc\r\n0\r\n\r\n${HIDDEN}`)],
  ['no size', chunked(`\r\nabc\r\n0\r\n\r\n${HIDDEN}`)],
  ['a trailer', chunked('3\r\nabc\r\n0\r\nX-Checksum: 1\r\n\r\n')],
  [
    'a request as a trailer',
    chunked(`3\r\nabc\r\n0\r\nXXPUT: /smuggled/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`),
  ],
  [
    'a request as a trailer of a refused request',
    chunked('0\r\nXXPUT: /smuggled/x HTTP/1.1\r\nHost: x\r\n\r\n').replace('/b/attacked', '/nowhere/a/b/c'),
  ],
  ['a body of a GET', `GET /b/attacked HTTP/1.1\r\nHost: x\r\nContent-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`],
  [
    'an upgrade',
    `GET /b/attacked HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n${HIDDEN.slice(0, 9)}`,
  ],
];

/** Sends and leaves; a proxy may answer, wait for more, or close. */
function attack(port: number, bytes: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    // Half a second is long enough for an answer, and a request without an end has none.
    const timer = setTimeout(() => socket.destroy(), 500);
    socket.once('data', () => socket.end());
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.on('connect', () => socket.write(Buffer.from(bytes, 'latin1')));
  });
}

/** Honest clients ask for things that only they can have, side by side on the shared connections. */
async function everybodyGetsTheirs(port: number, what: string): Promise<void> {
  const names = ['one', 'two', 'three', 'four'];
  const answers = await Promise.all(names.map((name) => requestOnce(port, 'GET', `/b/${name}`)));
  const texts = answers.map(({ status, body }) => [status, body.toString()]);
  assert.deepEqual(
    texts,
    names.map((name) => [200, `only for ${name}`]),
    `after ${what}`,
  );
}

async function withstands(port: number, direct: number): Promise<void> {
  const type = { 'Content-Type': 'text/plain' };
  for (const name of ['one', 'two', 'three', 'four', 'attacked']) {
    assert.equal((await requestOnce(port, 'PUT', `/b/${name}`, type)).status, 201);
    assert.equal((await requestOnce(port, 'POST', `/b/${name}`, type, `only for ${name}`)).status, 204);
  }
  for (const [what, bytes] of ATTACKS) {
    await attack(port, bytes);
    await everybodyGetsTheirs(port, what);
    assert.equal(
      (await requestOnce(direct, 'GET', '/smuggled/x')).status,
      404,
      `${what}: the node saw a request that the proxy did not`,
    );
  }
}

/** The nodes answer requests in a row one at a time or not at all; a proxy sends them on one by one. */
async function inARow(port: number): Promise<void> {
  const client = await RawClient.connect(port);
  const get = (name: string): Buffer => Buffer.from(`GET /b/${name} HTTP/1.1\r\nHost: x\r\n\r\n`);
  const first = client.send(Buffer.concat([get('one'), get('two'), get('three')]));
  const second = client.send(Buffer.alloc(0));
  const third = client.send(Buffer.alloc(0));
  const bodies = (await Promise.all([first, second, third])).map(({ body }) => body.toString());
  client.destroy();
  assert.deepEqual(bodies, ['only for one', 'only for two', 'only for three']);
}

/** Old clients speak HTTP/1.0; their answer ends with the connection. */
async function ancient(port: number, wanted: RegExp): Promise<void> {
  const client = await RawClient.connect(port);
  const text = await new Promise<string>((resolve) => {
    let got = '';
    client.socket.on('data', (chunk: Buffer) => (got += chunk.toString('latin1')));
    client.socket.on('close', () => resolve(got));
    client.socket.write('GET /b/one HTTP/1.0\r\nHost: x\r\n\r\n');
  });
  assert.match(text, wanted);
}

async function absolute(port: number): Promise<void> {
  const client = await RawClient.connect(port);
  const answer = await client.send(Buffer.from('GET http://x/b/one HTTP/1.1\r\nHost: x\r\n\r\n'));
  client.destroy();
  assert.equal(answer.body.toString(), 'only for one');
}

interface Proxy {
  readonly name: string;
  readonly program: 'nginx' | 'haproxy';
  readonly ancient: RegExp;
  readonly start: (t: TestContext, upstreamPort: number) => Promise<number>;
}

const ANSWERED = /^HTTP\/1\.[01] 200 [\s\S]*only for one$/;
/** HAProxy hands the client's version on. */
const REFUSED = /^HTTP\/1\.1 (400|505) /;

const KEPT = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;';
/** Clients here call the node so. */
const HOSTS = '[server]\nhosts = ["x"]\n';
const PROXIES: readonly Proxy[] = [
  {
    name: 'nginx',
    program: 'nginx',
    ancient: ANSWERED,
    start: (t, upstreamPort) => startNginx(t, { upstreamPort, denied, location: KEPT }),
  },
  {
    name: 'nginx that passes bodies on as they come',
    program: 'nginx',
    ancient: ANSWERED,
    start: (t, upstreamPort) =>
      startNginx(t, { upstreamPort, denied, location: `${KEPT} proxy_request_buffering off;` }),
  },
  {
    name: 'HAProxy',
    program: 'haproxy',
    ancient: REFUSED,
    start: (t, upstreamPort) => startHaproxy(t, { upstreamPort, denied }),
  },
];

for (const { name, program, ancient: wanted, start } of PROXIES) {
  const skip = proxyMissing(program) ?? false;
  test(`${name}: smuggling fails, and clients of every age get their answers`, { skip }, async (t) => {
    await withServer({ toml: HOSTS }, async (server) => {
      const port = await start(t, server.port);
      await withstands(port, server.port);
      await inARow(port);
      await ancient(port, wanted);
      await absolute(port);
    });
  });
}

test(
  'nginx as it comes speaks HTTP/1.0 to the node, which refuses',
  { skip: proxyMissing('nginx') ?? false },
  async (t) => {
    await withServer({}, async (server) => {
      const port = await startNginx(t, { upstreamPort: server.port, location: 'proxy_http_version 1.0;' });
      const status = (await requestOnce(port, 'GET', '/__svc/metrics')).status;
      assert.ok(status === 505 || status === 400, `${status}`);
    });
  },
);
