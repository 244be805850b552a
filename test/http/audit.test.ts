// The audit log over every row of both planes and real sockets: what leaves a line, what it says, and what it never holds.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { TokenBook } from '../../src/access/token-book.ts';
import { errorNumber } from '../../src/base/errors.ts';
import { ADMIN_ROWS, CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import type { ControlPort } from '../../src/subscriptions/ports.ts';
import { AuditRig } from '../audit/rig.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { bearer, bookOf, listed, scopeOf, textOf } from '../support/scoped-tokens.ts';
import { until } from '../support/until.ts';
import { type Rig, startPlanes } from './planes.ts';

const CLIENT = 'client-secret-0123456789abcdef0123';
const ADMIN = 'admin-secret-0123456789abcdef01234';
const WRONG = 'wrong-secret-0123456789abcdef01234';
const TOKENS = [
  listed('reader', [scopeOf('b', '*', 'read')]),
  listed('elsewhere', [scopeOf('other', '*', 'read')]),
  listed('old', [scopeOf('b', '*', 'read')], 1),
];
const VALUES: Readonly<Record<string, string>> = { bucket: 'b', stream: 's', node: '2', id: 'x' };
/** Not called by people: probes, numbers, documents, and the page, which holds no data. */
const SILENT = /^\/$|__svc\/(?:health|ready|metrics|metrics\/history|openapi\.json|whoami|leadership-shed)$/;

const CONTROL: ControlPort = {
  open: ({ rights }) => ({
    run: () =>
      Promise.resolve(
        rights === undefined
          ? { status: 204 }
          : { status: 403, json: { error: { code: 'INSUFFICIENT_SCOPE', message: '' } } },
      ),
  }),
  refusal: () => undefined,
};

interface Audited extends Rig {
  readonly log: AuditRig;
}

async function start(t: TestContext, proxies: readonly string[] = [], control = CONTROL): Promise<Audited> {
  const log = new AuditRig(proxies);
  const settings = { clientToken: CLIENT, adminToken: ADMIN, clientTokens: bookOf(TOKENS) };
  const rig = await startPlanes(t, { ...settings, ...log }, true, { control });
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('STREAM_NOT_FOUND'));
  return { ...rig, log };
}

function pathOf({ pattern }: RouteRow): string {
  const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => VALUES[name] ?? '0').replace('*', 'subscriptions/x');
  return `${path}?token=${WRONG}`;
}

const withToken = (token: string): Record<string, string> => ({ Authorization: `Bearer ${token}` });

/** Rows that the node of this test serves. */
function requestsOf(rows: readonly RouteRow[]): { row: RouteRow; method: string; path: string }[] {
  return rows
    .filter(({ pattern }) => pattern !== '/__svc/webhook-keys')
    .flatMap((row) =>
      row.methods.flatMap((one) =>
        (one === '*' ? ['GET', 'DELETE'] : [one]).map((method) => ({ row, method, path: pathOf(row) })),
      ),
    );
}

test('every call of the admin plane leaves one line, but for probes, metrics and documents', async (t) => {
  const { adminPort, log } = await start(t);
  let audited = 0;
  for (const { row, method, path } of requestsOf(ADMIN_ROWS)) {
    log.audit.tell();
    log.take();
    const { status, headers } = await requestOnce(adminPort, method, path, {
      ...withToken(ADMIN),
      'X-Request-Id': 'r1',
    });
    const isSilent = SILENT.test(row.pattern);
    await until('the line is there', () => log.lines.length > 0 || isSilent);
    const lines = log.take();
    const what = `${method} ${row.pattern}`;
    if (isSilent) {
      assert.deepEqual(lines, [], what);
      continue;
    }
    audited++;
    const [line] = lines;
    assert.equal(lines.length, 1, what);
    assert.deepEqual(
      [line?.event, line?.who, line?.from, line?.plane, line?.what, line?.status, line?.request_id],
      ['admin', 'admin_token', '127.0.0.1', 'admin', what, status, 'r1'],
    );
    assert.equal(line?.code, headers.get('millrace-error'), what);
    assert.equal(line?.path, path.slice(0, path.indexOf('?')), what);
    assert.equal(line?.bucket, row.pattern.includes('{bucket}') ? 'b' : undefined, what);
    assert(!JSON.stringify(line).includes('secret'), what);
  }
  assert(audited > 25, `${audited} calls`);
});

test('on the client plane what destroys leaves a line whatever comes of it, and what succeeds otherwise none', async (t) => {
  const { port, log, gateway } = await start(t);
  for (const code of ['STREAM_NOT_FOUND', 'NO_LEADER'] as const) {
    gateway.script = (_, reply) => void (reply.code = errorNumber(code));
    for (const { row, method, path } of requestsOf(CLIENT_ROWS)) {
      const { status } = await requestOnce(port, method, path, withToken(CLIENT));
      const destroys = method === 'DELETE' || row.operation === 'retention';
      const isDeletion = destroys && row.access === undefined;
      await until('the line is there', () => log.lines.length > 0 || !isDeletion);
      const lines = log.take().filter(({ event }) => event !== 'denied');
      const what = `${method} ${row.pattern}`;
      if (!destroys) assert.deepEqual(lines, [], what);
      if (!isDeletion) continue;
      assert.equal(lines.length, 1, what);
      assert.deepEqual(
        [lines[0]?.event, lines[0]?.who, lines[0]?.what, lines[0]?.status],
        ['deleted', 'client_token', what, status],
      );
    }
  }
});

test('every row refuses a sender without rights with one line, that says why', async (t) => {
  const { port, adminPort, log } = await start(t);
  const senders = [
    [{}, 'anonymous', 'missing'],
    [withToken(WRONG), 'anonymous', 'unknown'],
    [bearer('old'), 'anonymous', 'expired'],
    [bearer('elsewhere'), 'token:elsewhere', undefined],
  ] as const;
  for (const [headers, who, reason] of senders) {
    for (const { row, method, path } of requestsOf(CLIENT_ROWS)) {
      if (row.access !== undefined || row.right === 'any') continue;
      log.audit.tell();
      log.take();
      const { status, headers: answered } = await requestOnce(port, method, path, headers);
      const what = `${method} ${row.pattern} by ${who}`;
      // A bucket out of scope is an empty list.
      if (status === 200) continue;
      if (!['401', '403', '404'].includes(String(status))) assert.fail(`${what}: ${status}`);
      if (row.pattern === '/__svc/leadership-shed' && status === 404) continue;
      const lines = log.take();
      assert.equal(lines.length, 1, what);
      const [line] = lines;
      assert.deepEqual([line?.event, line?.who, line?.reason, line?.status], ['denied', who, reason, status], what);
      assert.equal(line?.code, answered.get('millrace-error'), what);
    }
  }
  for (const { row, method, path } of requestsOf(ADMIN_ROWS)) {
    if (row.access !== undefined) continue;
    log.audit.tell();
    log.take();
    // The token of the other plane.
    assert.equal((await requestOnce(adminPort, method, path, withToken(CLIENT))).status, 401);
    const lines = log.take();
    assert.deepEqual([lines.length, lines[0]?.event, lines[0]?.plane], [1, 'denied', 'admin'], path);
    assert(!JSON.stringify(lines).includes('secret'), path);
  }
});

test('subscriptions, foreign pages and unknown hosts are denied with a line', async (t) => {
  const { port, adminPort, log } = await start(t);
  const asked = async (to: number, method: string, path: string, headers: Record<string, string>): Promise<unknown> => {
    const { status } = await requestOnce(to, method, path, headers);
    await until('the line is there', () => log.lines.length > 0);
    const [line, ...others] = log.take();
    assert.deepEqual(others, []);
    return [status, line?.event, line?.who, line?.code];
  };
  const subscription = '/v1/stream/__ds/subscriptions/x';
  assert.deepEqual(await asked(port, 'DELETE', subscription, bearer('reader')), [
    403,
    'denied',
    'token:reader',
    'INSUFFICIENT_SCOPE',
  ]);
  assert.deepEqual(await asked(port, 'GET', subscription, bearer('reader')), [
    403,
    'denied',
    'token:reader',
    'INSUFFICIENT_SCOPE',
  ]);
  assert.deepEqual(await asked(port, 'DELETE', subscription, withToken(CLIENT)), [
    204,
    'deleted',
    'client_token',
    undefined,
  ]);
  const page = { ...withToken(ADMIN), Origin: 'https://evil.example' };
  assert.deepEqual(await asked(adminPort, 'DELETE', '/__svc/purge/b', page), [
    403,
    'denied',
    'admin_token',
    'ORIGIN_NOT_ALLOWED',
  ]);
  const stranger = await RawClient.connect(adminPort);
  const { status } = await stranger.send(Buffer.from('GET /__svc/usage HTTP/1.1\r\nHost: evil.example\r\n\r\n'));
  stranger.destroy();
  const [line] = log.take();
  assert.deepEqual([status, line?.event, line?.who, line?.code], [421, 'denied', 'anonymous', 'HOST_NOT_ALLOWED']);
});

test('an operator that leaves before the answer has a line without a status', async (t) => {
  const { adminPort, log, gateway } = await start(t);
  gateway.script = () => false;
  const client = await RawClient.connect(adminPort);
  client
    .send(
      Buffer.from(`DELETE /__svc/streams/b/s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ADMIN}\r\n\r\n`),
    )
    .catch(() => undefined);
  await until('the shard is asked', () => gateway.asked.length > 0);
  client.destroy();
  await until('the line is there', () => log.lines.length > 0);
  assert.deepEqual(
    log.take().map(({ what, status }) => [what, status]),
    [['DELETE /__svc/streams/{bucket}/{stream}', 0]],
  );
});

test('the address is that which a trusted proxy tells, and otherwise that of the connection', async (t) => {
  const trusting = await start(t, ['127.0.0.0/8']);
  const forwarded = { ...withToken(WRONG), 'X-Forwarded-For': '10.1.1.1, 203.0.113.9' };
  await requestOnce(trusting.port, 'GET', '/b', forwarded);
  assert.deepEqual(
    trusting.log.take().map(({ from, via }) => [from, via]),
    [['203.0.113.9', '127.0.0.1']],
  );
  const other = { ...withToken(WRONG), Forwarded: 'for=10.1.1.1, for="[2001:db8::7]:80"' };
  for (const [headers, from] of [
    [other, '2001:db8::7'],
    [{ ...other, ...forwarded }, '127.0.0.1'],
  ] as const) {
    await requestOnce(trusting.port, 'GET', '/b', headers);
    assert.equal(trusting.log.take()[0]?.from, from);
  }
  trusting.log.senders.trust([]);
  await requestOnce(trusting.port, 'GET', '/b', forwarded);
  assert.deepEqual(
    trusting.log.take().map(({ from, via }) => [from, via]),
    [['127.0.0.1', undefined]],
  );
});

test('a change of the voters says which, and nothing else of the query', async (t) => {
  const { adminPort, log } = await start(t);
  const path = `/__svc/raft/0/membership?token=${WRONG}&voters=1,2`;
  await requestOnce(adminPort, 'POST', path, withToken(ADMIN));
  const [line] = log.take();
  assert.deepEqual(
    [line?.what, line?.path, line?.parameters],
    ['POST /__svc/raft/{group}/membership', '/__svc/raft/0/membership', { voters: '1,2' }],
  );
});

test('a tenant hides no denial of another one, however many tokens it makes of its own', async (t) => {
  const log = new AuditRig();
  const right = { expiresAtMs: Infinity, scopes: [scopeOf('b', '*', 'read')] };
  const clientTokens: TokenBook = {
    grantOf: (id) => ({ id, ...right, ...(id === 'other' ? {} : { account: 'tenant' }) }),
    holds: () => true,
  };
  const { port } = await startPlanes(t, { clientTokens, ...log });
  const client = await RawClient.connect(port);
  for (let i = 0; i < 600; i++) await client.request('DELETE', '/b/s', withToken(`child-${i}`));
  log.take();
  assert.equal((await client.request('DELETE', '/b/s', withToken('other'))).status, 403);
  client.destroy();
  assert.deepEqual(
    log.take().map(({ event, who }) => [event, who]),
    [['denied', 'token:other']],
  );
});

test('no line of any of these holds a token', async (t) => {
  const { port, adminPort, log } = await start(t);
  for (const to of [port, adminPort]) {
    for (const token of [CLIENT, ADMIN, WRONG, textOf('reader'), textOf('old'), `${WRONG}.${WRONG}.x`]) {
      for (const path of ['/b/s', `/b?token=${token}`, '/__svc/usage']) {
        await requestOnce(to, 'DELETE', path, withToken(token));
        await requestOnce(to, 'GET', path, { Authorization: `bearer   ${token}`, Cookie: token });
      }
    }
  }
  log.audit.tell();
  const text = JSON.stringify(log.take());
  for (const secret of ['secret', 'token-of-', '0123456789']) assert(!text.includes(secret), secret);
});

test('a stranger leaves no line about a deletion on the routes that are open to all', async (t) => {
  const refusing: ControlPort = {
    ...CONTROL,
    open: () => ({ run: () => Promise.resolve({ status: 405, allow: 'GET' }) }),
  };
  const { port, log } = await start(t, [], refusing);
  for (const path of ['jwks.json', 'subscriptions/x/callback', 'subscriptions/x/ack', 'subscriptions/x/release'])
    await requestOnce(port, 'DELETE', `/v1/stream/__ds/${path}`);
  await requestOnce(port, 'DELETE', '/b/s', withToken(CLIENT));
  await until('the line of the client is there', () => log.lines.length > 0);
  assert.deepEqual(
    log.take().map(({ event, path }) => [event, path]),
    [['deleted', '/b/s']],
  );
});

test('no other parameter hides what a call of an operator changes, and names are cut', async (t) => {
  const { adminPort, port, log } = await start(t);
  const membership = '/__svc/raft/3/membership';
  for (const query of [`x=${'y'.repeat(600)}&voters=1,2,3`, 'upto=%zz&voters=1,2,3', 'voters=1,2,3&max_bytes=%'])
    await requestOnce(adminPort, 'POST', `${membership}?${query}`, withToken(ADMIN));
  await until('three lines', () => log.lines.length === 3);
  for (const { parameters } of log.take()) assert.deepEqual(parameters, { voters: '1,2,3' });
  await requestOnce(port, 'DELETE', `/b/${'s'.repeat(700)}`, withToken(CLIENT));
  await until('the line of the deletion', () => log.lines.length > 0);
  assert.equal(log.take()[0]?.stream, 's'.repeat(512));
});
