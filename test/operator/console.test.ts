// The server of `millracectl console` with a stand-in for the nodes: who may call, and what is passed on.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { type IncomingMessage, type RequestListener, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { consolePage } from '../../src/console/built-page.ts';
import { ConsoleServer } from '../../src/console/cluster/server.ts';
import { ctl, scratchFile, startCtl } from '../support/ctl.ts';
import { freePort } from '../support/ports.ts';
import { until } from '../support/until.ts';

const KEY = 'the-key-of-this-run';
const PAGE = consolePage('<!doctype html><script>1</script>');

interface Told {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

interface Rig {
  readonly host: string;
  /** The tool's. */
  readonly signal: AbortSignal;
  readonly ask: (method: string, path: string, headers?: Record<string, string>, body?: string) => Promise<Told>;
}

/** A console of two nodes: 1 is `node`, and nothing listens at 2. */
async function startConsole(t: TestContext, node: RequestListener, token: string | undefined = 'admin'): Promise<Rig> {
  const upstream = createServer(node);
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const ports = [(upstream.address() as AddressInfo).port, await freePort()];
  const nodes = ports.map((port, i) => ({
    id: i + 1,
    host: '127.0.0.1',
    name: `node-${i + 1}`,
    instanceId: '',
    adminUrl: `http://127.0.0.1:${port}`,
    httpUrl: undefined,
  }));
  const client = { timeoutMs: 5000, token, ca: undefined, signal: new AbortController().signal };
  const server = new ConsoleServer({ label: 'cluster.toml', nodes, page: PAGE, client, key: KEY });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.after(async () => {
    await server.close();
    upstream.closeAllConnections();
    upstream.close();
  });
  const host = `127.0.0.1:${port}`;
  const ask: Rig['ask'] = (method, path, headers = {}, body) =>
    new Promise((resolve, reject) => {
      const sent = { host, ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) };
      const asked = request({ port, host: '127.0.0.1', method, path, headers: sent, agent: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
        answer.on('error', reject);
      });
      asked.on('error', reject);
      asked.end(body);
    });
  return { host, ask, signal: client.signal };
}

const WITH_KEY = { authorization: `Bearer ${KEY}` };

test('the page needs no key, everything else does', async (t) => {
  const { ask } = await startConsole(t, (_, response) => void response.end('{}'));
  const page = await ask('GET', '/');
  assert.deepEqual([page.status, page.text], [200, '<!doctype html><script>1</script>']);
  assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
  assert.equal((await ask('GET', '/', { 'if-none-match': String(page.headers.etag) })).status, 304);
  assert.equal((await ask('POST', '/')).status, 405);
  for (const path of ['/console/nodes', '/nodes/1/__svc/metrics', '/elsewhere']) {
    assert.equal((await ask('GET', path)).status, 401, path);
    assert.equal((await ask('GET', path, { authorization: 'Bearer another' })).status, 401, path);
  }
  const nodes = await ask('GET', '/console/nodes', WITH_KEY);
  const { label, nodes: listed } = JSON.parse(nodes.text) as { label: string; nodes: { id: number }[] };
  assert.deepEqual([label, listed.map(({ id }) => id)], ['cluster.toml', [1, 2]]);
  assert.equal((await ask('GET', '/elsewhere', WITH_KEY)).status, 404);
});

test('the signal of the tool keeps nothing of a request that is over', async (t) => {
  const any = t.mock.method(AbortSignal, 'any');
  const { ask, signal } = await startConsole(t, (_, response) => void response.end('{}'));
  for (let i = 0; i < 3; i++) assert.equal((await ask('GET', '/nodes/1/__svc/metrics', WITH_KEY)).status, 200);
  await until('all are over', () => getEventListeners(signal, 'abort').length === 0);
  const sources = any.mock.calls.flatMap(({ arguments: [signals] }) => [...signals]);
  assert(sources.length > 0 && !sources.includes(signal), 'Node 20 never lets go of signals that are derived from one');
});

test('pages of other names and origins are refused, with the key too', async (t) => {
  const asked: string[] = [];
  const { host, ask } = await startConsole(t, ({ url = '' }, response) => {
    asked.push(url);
    response.end('{}');
  });
  const path = '/nodes/1/__svc/leadership-shed/maintenance';
  const port = host.split(':')[1] ?? '';
  for (const name of [`evil.example:${port}`, '127.0.0.1', `127.0.0.1:${Number(port) + 1}`, `127.0.0.1:${port}.`]) {
    assert.equal((await ask('GET', '/', { host: name })).status, 421, name);
    assert.equal((await ask('POST', path, { ...WITH_KEY, host: name })).status, 421, name);
  }
  for (const foreign of [
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { origin: `https://${host}` },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ]) {
    assert.equal((await ask('POST', path, { ...WITH_KEY, ...foreign })).status, 403, JSON.stringify(foreign));
  }
  assert.deepEqual(asked, []);
  assert.equal((await ask('GET', '/', { 'sec-fetch-site': 'none' })).status, 200);
  const own = { ...WITH_KEY, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' };
  assert.equal((await ask('POST', path, own)).status, 200);
  assert.equal((await ask('POST', path, { ...WITH_KEY, host: `localhost:${port}` })).status, 200);
  assert.equal(asked.length, 2);
});

test('a request is passed on to the node as it is, with the token of the tool in the place of the key', async (t) => {
  const { ask } = await startConsole(t, (incoming, response) => {
    let body = '';
    incoming.setEncoding('utf8').on('data', (piece: string) => (body += piece));
    incoming.on('end', () => {
      const { method, url, headers } = incoming;
      response.writeHead(409, {
        'content-type': 'application/json',
        'stream-next-offset': '7',
        'millrace-error': 'STREAM_CLOSED',
        'set-cookie': 'a=b',
      });
      response.end(JSON.stringify({ method, url, headers, body }));
    });
  });
  const path = '/__svc/streams/b/a%2F..%2Fb?offset=-1';
  const headers = { ...WITH_KEY, 'content-type': 'text/plain', 'stream-closed': 'true', cookie: 'c=d', 'x-other': '1' };
  const answer = await ask('POST', `/nodes/1${path}`, headers, 'hello');
  const got = JSON.parse(answer.text) as { method: string; url: string; headers: Record<string, string>; body: string };
  assert.deepEqual([got.method, got.url, got.body], ['POST', path, 'hello']);
  assert.deepEqual(
    ['authorization', 'content-type', 'stream-closed', 'cookie', 'x-other'].map((name) => got.headers[name]),
    ['Bearer admin', 'text/plain', 'true', undefined, undefined],
  );
  assert.deepEqual(
    ['stream-next-offset', 'millrace-error', 'set-cookie', 'content-security-policy'].map(
      (name) => answer.headers[name],
    ),
    ['7', 'STREAM_CLOSED', undefined, "sandbox; default-src 'none'"],
  );
  assert.equal(answer.status, 409);
});

test('what is no route of an admin plane, and who is no node, gets no request', async (t) => {
  let count = 0;
  const { ask } = await startConsole(t, (_, response) => {
    count++;
    response.end();
  });
  for (const path of [
    '/nodes/1/',
    '/nodes/1/demo/log',
    '/nodes/x/__svc/metrics',
    '/nodes/1__svc/metrics',
    '/nodes/3/__svc/metrics',
  ]) {
    assert.equal((await ask('GET', path, WITH_KEY)).status, 404, path);
  }
  assert.equal((await ask('PATCH', '/nodes/1/__svc/metrics', WITH_KEY)).status, 405);
  const large = await ask('POST', '/nodes/1/__svc/streams/b/s', WITH_KEY, 'x'.repeat(1024 * 1024 + 1));
  assert.deepEqual([large.status, /at most 1048576 bytes/.test(large.text)], [413, true]);
  assert.equal(count, 0);
});

test('a node that is down, or wants another token, is one sentence', async (t) => {
  const { ask } = await startConsole(t, (_, response) => {
    response.writeHead(401);
    response.end();
  });
  const down = await ask('GET', '/nodes/2/__svc/metrics', WITH_KEY);
  assert.deepEqual([down.status, /^node 2: .*connection refused/.test(down.text)], [502, true], down.text);
  const refused = await ask('GET', '/nodes/1/__svc/metrics', WITH_KEY);
  assert.deepEqual([refused.status, /^node 1: .*bearer token/.test(refused.text)], [502, true], refused.text);
});

test('a page that goes away ends what it waited for', async (t) => {
  let ended = (): void => undefined;
  const end = new Promise<void>((resolve) => (ended = resolve));
  let begun = (): void => undefined;
  const begin = new Promise<void>((resolve) => (begun = resolve));
  const { host } = await startConsole(t, (incoming) => {
    incoming.once('close', ended);
    begun();
  });
  const leaving = new AbortController();
  const waiting = fetch(`http://${host}/nodes/1/__svc/metrics`, { headers: WITH_KEY, signal: leaving.signal });
  await begin;
  leaving.abort();
  await assert.rejects(waiting);
  await end;
});

test('the verb listens on loopback only', async () => {
  const config = scratchFile('cluster.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\n');
  const everywhere = await ctl(['console', '--config', config, '--listen', '0.0.0.0:4480']);
  assert.deepEqual([everywhere.code, /loopback only.*ssh -L/.test(everywhere.stderr)], [2, true], everywhere.stderr);
  const odd = await ctl(['console', '--config', config, '--listen', 'here']);
  assert.match(odd.stderr, /--listen here: expected HOST:PORT/);
});

test('the verb prints the address with the key, serves the page, and ends with Ctrl-C', async () => {
  const config = scratchFile('cluster.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = 1\n');
  const run = startCtl(['console', '--config', config, '--listen', '127.0.0.1:0']);
  await until(
    () => `the address of the console; now ${run.stdout} ${run.stderr}`,
    () => run.stdout.endsWith('\n'),
  );
  const [, origin = '', key = ''] =
    /^console of 1 node: (http:\/\/127\.0\.0\.1:\d+)\/#key=([\w-]{32})$/m.exec(run.stdout) ?? [];
  const page = await (await fetch(`${origin}/`)).text();
  assert.match(page, /data-console="cluster"/);
  const nodes = await fetch(`${origin}/console/nodes`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal(nodes.status, 200);
  run.interrupt();
  assert.equal(await run.ended, 0, run.stderr);
});
