// The fronts for browsers as they are shipped, in a real nginx, HAProxy and Caddy: one HTTP/2 connection carries more event
// streams than a browser opens connections, and each sees what is appended at once. Nodes are told how the client came, one
// that is away costs no request, and a session passes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { type ServerResponse, createServer } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
  connect,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { type TestContext, test } from 'node:test';
import { READ, SessionClient } from '../session/client.ts';
import { makeCertificate } from '../support/certificate.ts';
import { readText } from '../support/containers.ts';
import { freePort } from '../support/ports.ts';
import { type Proxy, proxyMissing, startCaddyWith, startHaproxyWith, startNginxWith } from '../support/proxies.ts';
import { removeFolder, temporaryFolder, withServer, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const STREAMS = 10;
/** Longer than the pause between two checks. */
const SLOW_MS = 3000;
const SEEN = /event: data\ndata:hello\n/;

interface Front {
  readonly program: Proxy;
  /** In scripts/docker. */
  readonly file: string;
  /** The nodes that it names. */
  readonly nodes: RegExp;
  readonly nodesOf: (addresses: readonly string[]) => string;
  readonly start: (t: TestContext, configuration: string, port: number) => Promise<void>;
}

const FRONTS: readonly Front[] = [
  {
    program: 'nginx',
    file: 'front.conf',
    nodes: /(server millrace-\d:4437;\s+)+/,
    nodesOf: (addresses) => addresses.map((address) => `server ${address};\n`).join(''),
    start: startNginxWith,
  },
  {
    program: 'haproxy',
    file: 'front.haproxy.cfg',
    nodes: /(?: *server (\w+)-\d millrace-\d:4437\n)+/g,
    nodesOf: (addresses) => addresses.map((address, i) => `  server $1-${i} ${address}\n`).join(''),
    start: startHaproxyWith,
  },
  {
    program: 'caddy',
    file: 'front.Caddyfile',
    nodes: /(millrace-\d:4437 )+/,
    nodesOf: (addresses) => `${addresses.join(' ')} `,
    start: startCaddyWith,
  },
];

for (const front of FRONTS)
  test(
    `${front.program}: ten event streams and an append share one HTTP/2 connection`,
    { skip: proxyMissing(front.program) },
    async (t) => {
      await withServer({ cores: 1, groups: 4 }, async (server) => {
        const { port, ca } = await startFront(t, front, [await freePort(), server.port]);
        const session = connect(`https://127.0.0.1:${port}`, { ca });
        t.after(() => session.destroy());
        await once(session, 'connect');
        assert.equal(session.alpnProtocol, 'h2');
        const put = { ':method': 'PUT', 'content-type': 'text/plain' };
        assert.equal((await answerTo(session, { ...put, ':path': '/b/s' }))[':status'], 201);
        const flat = await answerTo(session, { ...put, ':path': '/v1/stream/s' });
        assert.deepEqual([flat[':status'], flat.location], [201, `https://127.0.0.1:${port}/v1/stream/s`]);
        // Half of them would go to the node that is away.
        for (let i = 0; i < 8; i++) assert.equal((await answerTo(session, { ':path': '/b/s' }))[':status'], 200);
        const readers = Array.from({ length: STREAMS }, () => session.request({ ':path': '/b/s?offset=-1&live=sse' }));
        const all = readers.map((reader) => watch(reader));
        // Each is at the tail before anything is appended.
        for (const { begun } of all) await within(begun, PATIENCE_MS, 'the first control event of a stream');
        const append = { ':method': 'POST', ':path': '/b/s', 'content-type': 'text/plain' };
        assert.equal((await answerTo(session, append, 'hello'))[':status'], 204, 'a request passes beside the streams');
        for (const { seen } of all) await within(seen, PATIENCE_MS, 'the append on every stream');
        assert.equal((await server.metrics())['sse_readers'], STREAMS);
        for (const reader of readers) reader.close();
        // As a browser opens a WebSocket.
        const socket = connectTls({ host: '127.0.0.1', port, ca, ALPNProtocols: ['http/1.1'] });
        await once(socket, 'secureConnect');
        const client = await SessionClient.over(socket);
        assert.equal((await client.ask(READ, 1, 'b', 's', { offset: 0 })).body, 'hello');
        client.destroy();
      });
    },
  );

const haproxy = FRONTS.find(({ program }) => program === 'haproxy') as Front;

test(
  'HAProxy: a node that takes three seconds for its first check stays in service',
  { skip: proxyMissing('haproxy') },
  async (t) => {
    const node = await startNode(t, (response, checks) => {
      if (checks === 1) setTimeout(() => response.end(), SLOW_MS);
      else response.end();
    });
    const session = await node.sessionOnceChecked([node.port]);
    assert.equal((await answerTo(session, { ':path': '/b/s' }))[':status'], 200);
  },
);

test(
  'HAProxy: nodes that all failed their checks are asked all the same',
  { skip: proxyMissing('haproxy') },
  async (t) => {
    const node = await startNode(t, (response) => response.writeHead(503).end());
    const session = await node.sessionOnceChecked([await freePort(), node.port]);
    for (let i = 0; i < 4; i++) assert.equal((await answerTo(session, { ':path': '/b/s' }))[':status'], 200);
  },
);

interface CheckedNode {
  readonly port: number;
  /** Through HAProxy in front of these nodes, when it has asked this one twice: the first check has decided by then. */
  sessionOnceChecked(nodes: readonly number[]): Promise<ClientHttp2Session>;
}

/** A stand-in that serves every request but checks, which `onCheck` answers and counts from 1. */
async function startNode(
  t: TestContext,
  onCheck: (response: ServerResponse, checks: number) => void,
): Promise<CheckedNode> {
  let checks = 0;
  let checkedAgain = (): void => undefined;
  const again = new Promise<void>((resolve) => (checkedAgain = resolve));
  const node = createServer((request, response) => {
    if (request.url !== '/__svc/ready') return void response.end();
    onCheck(response, ++checks);
    return checks === 2 ? checkedAgain() : undefined;
  });
  t.after(() => node.close().closeAllConnections());
  await once(node.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (node.address() as AddressInfo).port,
    sessionOnceChecked: async (nodes) => {
      const { port, ca } = await startFront(t, haproxy, nodes);
      await within(again, PATIENCE_MS, 'the second check');
      const session = connect(`https://127.0.0.1:${port}`, { ca });
      t.after(() => session.destroy());
      return session;
    },
  };
}

interface Started {
  readonly port: number;
  readonly ca: Buffer;
}

/** As it is shipped, but for its port, its certificate and the nodes. */
async function startFront(t: TestContext, front: Front, nodes: readonly number[]): Promise<Started> {
  const folder = temporaryFolder('front');
  t.after(() => removeFolder(folder));
  const { certPath, keyPath } = makeCertificate(folder);
  const both = join(folder, 'both.pem');
  writeFileSync(both, readFileSync(certPath, 'utf8') + readFileSync(keyPath, 'utf8'));
  const port = await freePort();
  const written = readText(`scripts/docker/${front.file}`);
  assert.match(written, front.nodes);
  const configuration = written
    .replace(front.nodes, front.nodesOf(nodes.map((node) => `127.0.0.1:${node}`)))
    .replace(/(listen |bind ):?8443/, `$1127.0.0.1:${port}`)
    .replace('admin off', 'admin off\n\tdefault_bind 127.0.0.1')
    .replace('https://:8443', `https://:${port}`)
    .replace('/run/secrets/front.crt', certPath)
    .replace('/run/secrets/front.key', keyPath)
    .replace('/run/secrets/front.pem', both);
  await front.start(t, configuration, port);
  return { port, ca: readFileSync(certPath) };
}

async function answerTo(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body = '',
): Promise<IncomingHttpHeaders & IncomingHttpStatusHeader> {
  const stream = session.request(headers, { endStream: body === '' });
  if (body !== '') stream.end(body);
  stream.resume();
  const [answer] = (await once(stream, 'response')) as [IncomingHttpHeaders & IncomingHttpStatusHeader];
  return answer;
}

interface Watched {
  readonly begun: Promise<void>;
  readonly seen: Promise<void>;
}

function watch(stream: ClientHttp2Stream): Watched {
  let text = '';
  const shows = (pattern: RegExp): Promise<void> =>
    new Promise((resolve) => stream.on('data', () => void (pattern.test(text) && resolve())));
  stream.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return { begun: shows(/"upToDate":true/), seen: shows(SEEN) };
}
