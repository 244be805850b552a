// Limits of web pages: foreign names, foreign origins, and changes that a browser sends without asking first.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { startPlanes } from './planes.ts';

type Headers = Readonly<Record<string, string>>;

/** fetch sets some of these headers itself. */
function ask(url: string, method: string, headers: Headers): Promise<{ status: number; text: string; allows: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      answer.on('end', () => {
        const allows = String(answer.headers['access-control-allow-origin'] ?? '');
        resolve({ status: answer.statusCode ?? 0, text, allows });
      });
    });
    sent.once('error', reject).end();
  });
}

const EVIL = 'https://evil.example';
/** As browsers send them: forms, images and scripts, fetch with and without CORS, frames without an origin. */
const FOREIGN_PAGES: readonly Headers[] = [
  { origin: EVIL },
  { origin: EVIL, 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
  { origin: 'null', 'content-type': 'application/x-www-form-urlencoded' },
  { origin: 'http://localhost:3000' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'something-new' },
];
const FOREIGN_HOSTS = [
  'evil.example',
  'evil.example:4438',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  '10.0.0.9',
];
/** It needs no shard. */
const HARMLESS = '/__svc/leadership-shed';
const ADMIN_CALLS: readonly (readonly [string, string])[] = [
  ['POST', '/__svc/leadership-shed/maintenance'],
  ['DELETE', '/__svc/leadership-shed/maintenance'],
  ['DELETE', '/__svc/purge/b'],
  ['PUT', '/__svc/quota/b'],
  ['POST', '/__svc/raft/0/snapshot'],
  ['GET', '/__svc/backup/info'],
  ['GET', '/__svc/backup/group/0'],
  ['GET', '/__svc/metrics'],
  ['HEAD', '/__svc/usage'],
  ['OPTIONS', '/__svc/metrics'],
];

test('the admin plane takes nothing from web pages, and nothing under a name that it does not know', async (t) => {
  const { admin, gateway, drainMark } = await startPlanes(t);
  for (const [method, path] of ADMIN_CALLS) {
    for (const headers of FOREIGN_PAGES) {
      const { status, text, allows } = await ask(admin + path, method, headers);
      assert.deepEqual([status, allows], [403, ''], `${method} ${path} ${JSON.stringify(headers)}: ${text}`);
    }
    for (const host of FOREIGN_HOSTS) {
      // A page that was rebound is of the same origin.
      for (const headers of [{ host }, { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' }]) {
        const { status } = await ask(admin + path, method, headers);
        assert.equal(status, 421, `${method} ${path} ${host}`);
      }
    }
  }
  assert.equal(gateway.asked.length, 0);
  assert.equal(drainMark.draining, false);
});

test('a change from an old browser, and one that an address line cannot send', async (t) => {
  const { admin, drainMark } = await startPlanes(t);
  const path = `${admin}/__svc/leadership-shed/maintenance`;
  for (const headers of [
    { referer: 'http://evil.example/x' },
    { 'sec-fetch-site': 'none' },
    { referer: 'about:client' },
  ]) {
    assert.equal((await ask(path, 'POST', headers)).status, 403, JSON.stringify(headers));
  }
  assert.equal(drainMark.draining, false);
  assert.equal((await ask(`${admin}${HARMLESS}`, 'GET', { 'sec-fetch-site': 'none' })).status, 200, 'typed by hand');
});

test('tools reach the admin plane as before: by tunnels, by listed names, and with the token by any name', async (t) => {
  const hosts = { listen: '10.1.2.3', names: ['node-1.example'] };
  const { admin, adminPort } = await startPlanes(t, { adminHosts: hosts });
  const path = admin + HARMLESS;
  const names = [
    `127.0.0.1:${adminPort}`,
    'localhost:9999',
    '[::1]:1',
    'LOCALHOST',
    '10.1.2.3',
    'Node-1.example:80',
    'node-1.example.',
  ];
  for (const host of names) {
    assert.equal((await ask(path, 'GET', { host })).status, 200, host);
    const page = { host, origin: `https://${host}`, 'sec-fetch-site': 'same-origin' };
    assert.equal((await ask(path, 'GET', page)).status, 200, `a page below ${host}`);
  }
  const { text } = await ask(path, 'GET', { host: 'node-2.example' });
  assert.match(text, /"node-2\.example"; if it is a name of this node, add it to server\.admin_hosts/);
  assert.equal((await ask(`${admin}/__svc/health`, 'GET', { host: 'balancer.example' })).status, 200);
  const guarded = await startPlanes(t, { adminToken: 'token' });
  const guardedPath = guarded.admin + HARMLESS;
  const authorization = 'Bearer token';
  assert.equal((await ask(guardedPath, 'GET', { host: 'any.example', authorization })).status, 200);
  assert.equal((await ask(guardedPath, 'GET', { host: 'any.example', authorization: 'Bearer other' })).status, 421);
  assert.equal((await ask(guardedPath, 'GET', { origin: EVIL, authorization })).status, 403, 'with a token too');
});

test('a plane that listens everywhere knows addresses, which cannot be rebound', async (t) => {
  const { admin } = await startPlanes(t, { adminHosts: { listen: '0.0.0.0', names: [] } });
  for (const [host, status] of [
    ['10.0.0.9:4438', 200],
    ['[fe80::1]:4438', 200],
    ['evil.example', 421],
    ['10.0.0.9.example', 421],
  ] as const) {
    assert.equal((await ask(admin + HARMLESS, 'GET', { host })).status, status, host);
  }
});

const WRITES: readonly (readonly [string, string])[] = [
  ['PUT', '/b/s'],
  ['POST', '/b/s'],
  ['DELETE', '/b/s'],
  ['PUT', '/b/s/attrs'],
  ['POST', '/b/s/append-batch'],
  ['PUT', '/b/s/snapshot/0'],
  ['PUT', '/b/s/retention/0'],
  ['DELETE', '/b'],
  ['PUT', '/v1/stream/a/b'],
  ['POST', '/v1/stream/a/b'],
  ['POST', '/v1/stream/__ds/subscriptions/x/ack'],
  ['POST', '/__svc/cluster-probe'],
];

test('without a client token pages of other origins write nothing and read nothing', async (t) => {
  const { client, gateway } = await startPlanes(t, { corsOrigins: ['loopback', 'https://app.example'] });
  const pages = FOREIGN_PAGES.filter(({ origin }) => origin !== 'http://localhost:3000');
  for (const [method, path] of WRITES) {
    for (const headers of pages) {
      const { status, text } = await ask(client + path, method, { 'content-type': 'text/plain', ...headers });
      assert.equal(status, 403, `${method} ${path} ${JSON.stringify(headers)}`);
      assert.match(text, /see http\.cors_origins/);
    }
    // A rebound page has the name that it came from, and browsers mark none of its reads.
    const rebound = { host: 'evil.example', origin: 'http://evil.example' };
    assert.equal((await ask(client + path, method, rebound)).status, 421, `${method} ${path}`);
  }
  assert.equal((await ask(`${client}/b/s`, 'GET', { host: 'evil.example' })).status, 421);
  assert.equal(gateway.asked.length, 0);
  const read = await ask(`${client}/b/s`, 'GET', { origin: EVIL });
  assert.deepEqual([read.status, read.allows], [200, ''], 'the browser keeps it from the page');
});

test('pages that are allowed, and programs, write', async (t) => {
  const { client, port } = await startPlanes(t, { corsOrigins: ['loopback', 'https://app.example'] });
  const good: readonly Headers[] = [
    {},
    { origin: 'https://app.example', 'sec-fetch-site': 'cross-site' },
    { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' },
    { host: `localhost:${port}`, origin: `http://localhost:${port}`, 'sec-fetch-site': 'same-origin' },
    { 'sec-fetch-site': 'same-origin' },
  ];
  for (const headers of good) {
    const { status, allows } = await ask(`${client}/b/s`, 'DELETE', headers);
    assert.equal(status, 204, JSON.stringify(headers));
    assert.equal(allows, headers['origin'] ?? '');
  }
});

test('a proxy in front: its names are listed, or allowed origins go by themselves', async (t) => {
  const onLoopback = await startPlanes(t, {
    corsOrigins: ['loopback'],
    clientHosts: { listen: '127.0.0.1', names: ['s.example'] },
  });
  const page = { host: 's.example', origin: 'https://s.example', 'sec-fetch-site': 'same-origin' };
  assert.equal((await ask(`${onLoopback.client}/b/s`, 'DELETE', page)).status, 204);
  const beyond = await startPlanes(t, {
    corsOrigins: ['https://app.example'],
    clientHosts: { listen: '10.0.0.1', names: [] },
  });
  const cross = { host: 's.example', origin: 'https://app.example', 'sec-fetch-site': 'cross-site' };
  assert.equal((await ask(`${beyond.client}/b/s`, 'DELETE', cross)).status, 204);
  assert.equal((await ask(`${beyond.client}/b/s`, 'DELETE', { host: 's.example' })).status, 204, 'no browser');
  assert.equal((await ask(`${beyond.client}/b/s`, 'DELETE', page)).status, 403, 'the name may be the page’s own');
  const any = await startPlanes(t, { corsOrigins: ['*'] });
  assert.equal((await ask(`${any.client}/b/s`, 'DELETE', { host: 'x.example', origin: EVIL })).status, 204);
});

test('with a client token the name does not matter, and a list of origins still does', async (t) => {
  const authorization = 'Bearer one';
  const { client } = await startPlanes(t, { clientToken: 'one', corsOrigins: ['https://app.example'] });
  const own = { authorization, host: 's.example', origin: 'https://s.example' };
  assert.equal((await ask(`${client}/b/s`, 'DELETE', own)).status, 204);
  assert.equal((await ask(`${client}/b/s`, 'DELETE', { authorization, origin: EVIL })).status, 403);
});
