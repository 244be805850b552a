// A request that may not do anything costs nothing: no body is read, no room is held, and what others send goes
// through.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ControlPort } from '../../src/subscriptions/ports.ts';
import { type PathPattern, newPath, parsePath } from '../../src/http/paths.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';
import { SlowBodies } from '../../src/access/bodies.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { startPlanes } from './planes.ts';

const MIB = 1024 * 1024;

function headOf(method: string, path: string, lines: readonly string[]): Buffer {
  return Buffer.from(`${[`${method} ${path} HTTP/1.1`, 'Host: localhost', ...lines].join('\r\n')}\r\n\r\n`);
}

/** An answer to the head alone: the body is announced and never comes. */
async function statusOfHead(
  port: number,
  method: string,
  path: string,
  lines: readonly string[] = [],
): Promise<number> {
  const client = await RawClient.connect(port);
  try {
    const { status } = await client.send(headOf(method, path, [`Content-Length: ${MIB}`, ...lines]), method === 'HEAD');
    return status;
  } finally {
    client.destroy();
  }
}

/** A path for every pattern that the parser knows; a new one does not compile without one. */
const CLIENT_PATHS: Readonly<Record<Exclude<PathPattern, '/v1/stream/__ds/*'> | 'invalid' | 'none', string>> = {
  '/{bucket}/{stream}': '/v1/stream/a/b',
  '/{bucket}/{stream}/attrs': '/b/s/attrs',
  '/{bucket}/{stream}/append-batch': '/b/s/append-batch',
  '/{bucket}/{stream}/snapshot': '/b/s/snapshot',
  '/{bucket}/{stream}/snapshot/{offset}': '/b/s/snapshot/0',
  '/{bucket}/{stream}/retention': '/b/s/retention',
  '/{bucket}/{stream}/retention/{offset}': '/b/s/retention/0',
  '/{bucket}/{stream}/bootstrap': '/b/s/bootstrap',
  '/{bucket}': '/b',
  '/{bucket}/streams': '/b/streams',
  '/__svc/*': '/__svc/metrics',
  invalid: '/b/%00',
  none: '/',
};
const CONTROL_PATHS = [
  'subscriptions/x',
  'subscriptions/x/streams',
  'subscriptions/x/streams/a',
  'subscriptions/x/claim',
  'x',
];
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'CONSTRUCTOR'];

/** Every service path of the tables, with something behind it too. */
function servicePaths(): string[] {
  const rows = [...ADMIN_ROWS, ...CLIENT_ROWS].filter(({ pattern }) => pattern.startsWith('/__svc/'));
  const found = new Set(rows.map(({ pattern }) => pattern.replace(/\{\w+\}/g, '0')));
  assert(found.size >= 10, [...found].join(' '));
  return [...found].flatMap((path) => [path, `${path}/0/import`]);
}

/** Without detail, for load balancers. */
const OPEN = new Set(CLIENT_ROWS.filter(({ access }) => access === 'probe').map(({ pattern }) => pattern as string));

test('with tokens set, every route of both planes refuses a request without one before its body', async (t) => {
  const rig = await startPlanes(t, { clientToken: 'one', adminToken: 'two', inflightBodyBytes: 32 * MIB }, true, {
    control: NO_CONTROL,
  });
  const parsed = newPath();
  for (const [pattern, path] of Object.entries(CLIENT_PATHS)) {
    parsePath(path, parsed);
    assert.equal(parsed.pattern, pattern, path);
  }
  const control = CONTROL_PATHS.map((path) => `/v1/stream/__ds/${path}`);
  const clientPaths = [...Object.values(CLIENT_PATHS), ...control, ...servicePaths()];
  for (const [port, paths] of [
    [rig.port, clientPaths],
    [rig.adminPort, [...servicePaths(), '/', '/b/s', '/v1/stream/a']],
  ] as const) {
    for (const path of paths) {
      if (OPEN.has(path)) continue;
      for (const method of METHODS) {
        // The console's page, which holds no secret.
        if (port === rig.adminPort && path === '/' && (method === 'GET' || method === 'HEAD')) continue;
        for (const line of [[], ['Authorization: Bearer junk']]) {
          assert.equal(await statusOfHead(port, method, path, line), 401, `${method} ${path} ${line.join('')}`);
        }
      }
    }
  }
  assert.equal(rig.gateway.asked.length, 0);
});

const NO_CONTROL: ControlPort = {
  open: () => assert.fail('nothing gets so far'),
  refusal: () => undefined,
};

/** 128 connections that announce a body and send `bytes` of it; their answers' statuses, 0 when there is none. */
async function announce(t: TestContext, port: number, path: string, bytes: number): Promise<Promise<number>[]> {
  const head = headOf('POST', path, ['Content-Type: a/b', `Content-Length: ${2 * MIB}`]);
  const clients = await Promise.all(Array.from({ length: 128 }, () => RawClient.connect(port)));
  t.after(() => clients.forEach((client) => client.destroy()));
  const sent = Buffer.concat([head, Buffer.alloc(bytes)]);
  return clients.map((client) =>
    client.send(sent).then(
      ({ status }) => status,
      () => 0,
    ),
  );
}

/** A head has been read when a request on a later connection was answered. */
const settle = (port: number): Promise<unknown> => requestOnce(port, 'PUT', '/bucket');

test('128 connections that announce 2 MiB hold no room for what they have not sent', async (t) => {
  const { port, gateway } = await startPlanes(t, { inflightBodyBytes: 3 * MIB });
  const announced = await announce(t, port, '/b/s', 0);
  await settle(port);
  const write = await requestOnce(port, 'POST', '/b/s', { 'content-type': 'a/b' }, 'x'.repeat(2 * MIB));
  assert.equal(write.status, 204);
  assert.equal(gateway.asked.length, 1);
  assert.equal(announced.length, 128);
});

test('bodies of strangers have a bound of their own', async (t) => {
  const control: ControlPort = {
    open: () => ({ fromStranger: true, run: () => Promise.resolve({ status: 204 }) }),
    refusal: () => undefined,
  };
  const { port } = await startPlanes(t, { inflightBodyBytes: 16 * MIB }, true, { control });
  const answers = await announce(t, port, '/v1/stream/__ds/subscriptions/x/ack', MIB);
  // Eight of them fit; the others are told.
  const [first] = await Promise.all([Promise.race(answers), settle(port)]);
  assert.equal(first, 503);
  const write = await requestOnce(port, 'POST', '/b/s', { 'content-type': 'a/b' }, 'x'.repeat(16 * MIB));
  assert.equal(write.status, 204);
});

test('a bound is kept while the body comes, not at its end', async (t) => {
  const control: ControlPort = {
    open: () => ({ run: () => assert.fail('it has no end') }),
    refusal: () => undefined,
  };
  const { port } = await startPlanes(t, {}, true, { control });
  const json = 'Content-Type: application/json';
  for (const [method, path, status] of [
    ['PUT', '/v1/stream/__ds/subscriptions/x', 413],
    ['PUT', '/b/s/attrs', 400],
  ] as const) {
    const client = await RawClient.connect(port);
    t.after(() => client.destroy());
    const answer = client.send(headOf(method, path, [json, 'Transfer-Encoding: chunked']));
    for (let i = 0; i < 3; i++)
      client.socket.write(Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB), Buffer.from('\r\n')]));
    assert.equal((await answer).status, status, path);
  }
});

test('a body that drips is cut off after five minutes', () => {
  let nowMs = 0;
  const bodies = new SlowBodies(() => nowMs);
  const cut: string[] = [];
  const body = (name: string): { cutOff(): void } => ({ cutOff: () => cut.push(name) });
  const [first, second, third] = [body('first'), body('second'), body('third')];
  bodies.add(first);
  nowMs = 60_000;
  bodies.add(second);
  bodies.add(third);
  bodies.delete(third);
  nowMs = 299_999;
  bodies.sweep();
  assert.deepEqual(cut, []);
  nowMs = 300_000;
  bodies.sweep();
  assert.deepEqual([cut, bodies.size], [['first'], 1]);
  nowMs = 360_000;
  bodies.sweep();
  assert.deepEqual([cut, bodies.size], [['first', 'second'], 0]);
});
