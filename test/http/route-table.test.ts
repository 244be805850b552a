// Every row of the table of routes, asked over real sockets: who is let in, what it takes, what Allow says.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { ADMIN_ROWS, CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import type { ControlPort } from '../../src/subscriptions/ports.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { type Rig, startPlanes } from './planes.ts';

const CONTROL: ControlPort = {
  open: ({ method }) =>
    method === 'post'
      ? { run: () => Promise.resolve({ status: 204 }) }
      : { status: 405, allow: 'POST, OPTIONS', json: { error: { code: 'METHOD_NOT_ALLOWED', message: '' } } },
  refusal: () => undefined,
};
const VALUES: Readonly<Record<string, string>> = { bucket: 'b', stream: 's', node: '2', id: 'x' };

function pathOf({ pattern }: RouteRow): string {
  return pattern.replace(/\{(\w+)\}/g, (_, name: string) => VALUES[name] ?? '0').replace('*', 'other');
}

/** Rows of one plane that a node with a cluster plane and without keys for webhooks serves. */
function rowsOf({
  port,
  adminPort,
}: Rig): readonly (readonly [port: number, rows: readonly RouteRow[], plane: string])[] {
  const isServed = ({ pattern }: RouteRow): boolean => pattern !== '/__svc/webhook-keys';
  const isClient = (row: RouteRow): boolean => isServed(row) && pathOf(row) !== '/__svc/leadership-shed';
  return [
    [port, CLIENT_ROWS.filter(isClient), 'client'],
    [adminPort, ADMIN_ROWS.filter(isServed), 'admin'],
  ];
}

function methodOf({ methods }: RouteRow): string {
  const [method = ''] = methods;
  return method === '*' ? 'POST' : method;
}

async function statusOfHead(port: number, lines: readonly string[]): Promise<number> {
  const client = await RawClient.connect(port);
  try {
    return (await client.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), lines[0]?.startsWith('HEAD') === true))
      .status;
  } finally {
    client.destroy();
  }
}

/** Both planes over shards that refuse everything: what a row lets through is answered 503. */
async function startRefusing(t: TestContext, settings: Parameters<typeof startPlanes>[1]): Promise<Rig> {
  const rig = await startPlanes(t, settings, true, { control: CONTROL });
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('NO_LEADER'));
  return rig;
}

test('only rows that say so are open without a token', async (t) => {
  const rig = await startRefusing(t, { clientToken: 'one', adminToken: 'two' });
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows) {
      const head = `${methodOf(row)} ${pathOf(row)} HTTP/1.1`;
      const status = await statusOfHead(port, [head, 'Host: localhost']);
      assert.equal(status !== 401, row.access !== undefined, `${plane} ${head}: ${status}`);
    }
  }
});

test('only probes answer under a name that the plane does not know', async (t) => {
  const rig = await startRefusing(t, { corsOrigins: ['loopback'] });
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows) {
      const head = `${methodOf(row)} ${pathOf(row)} HTTP/1.1`;
      const status = await statusOfHead(port, [head, 'Host: elsewhere.example']);
      assert.equal(status !== 421, row.access === 'probe', `${plane} ${head}: ${status}`);
    }
  }
});

test('a body beyond the bound of its row is refused before it comes', async (t) => {
  const rig = await startRefusing(t, {});
  let checked = 0;
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows) {
      if (row.bodyBytesMax === undefined) continue;
      const path = /\/(snapshot|retention)$/.test(row.pattern) ? `${pathOf(row)}?record=0` : pathOf(row);
      const head = `${methodOf(row)} ${path} HTTP/1.1`;
      const length = `Content-Length: ${row.bodyBytesMax + 1}`;
      const status = await statusOfHead(port, [head, 'Host: localhost', 'Content-Type: application/json', length]);
      // Attributes that are too long are malformed.
      assert.equal(status, row.pattern.endsWith('/attrs') ? 400 : 413, `${plane} ${head}`);
      checked++;
    }
  }
  assert(checked >= 10, `${checked} rows with a body`);
  assert.equal(rig.gateway.asked.length, 0);
});

/** Rows that ask no shard, or whose answer is of the node itself. */
const ASKS_NO_SHARD =
  /^\/$|^\/__svc\/(openapi\.json|whoami|metrics(\/history)?|health|subscriptions|cluster-probe|leadership-shed.*|webhook-keys|backup\/info)$/;
/** A bucket needs no creation, and the head of a report says nothing of it. */
const NEEDS_NO_SHARD = new Set(['PUT /{bucket}', 'HEAD /__svc/usage']);
/** Enough for every route to get as far as the shards, or to refuse it. */
const BODY = '{"streams":1,"retained_bytes":1}';

test('what the shards refuse is no success on any route, and bodies have a bound', async (t) => {
  const rig = await startRefusing(t, {});
  // No route repeats its question after this one.
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('BUCKET_NOT_EMPTY'));
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows.filter(({ pattern }) => !ASKS_NO_SHARD.test(pattern) && !pattern.startsWith('/v1/'))) {
      for (const method of row.methods) {
        if (NEEDS_NO_SHARD.has(`${method} ${row.pattern}`)) continue;
        const path = /\/(snapshot|retention)$/.test(row.pattern) ? `${pathOf(row)}?record=0` : pathOf(row);
        const body = method === 'PUT' || method === 'POST' ? BODY : undefined;
        const { status } = await requestOnce(port, method, path, { 'content-type': 'application/json' }, body);
        assert(status >= 300 && status !== 413, `${plane} ${method} ${path}: ${status}`);
      }
    }
  }
  assert.deepEqual(rig.errors, []);
});

test('a condition is decided or refused; no write ignores it', async (t) => {
  const rig = await startRefusing(t, {});
  let refused = 0;
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows) {
      const method = methodOf(row);
      if (method === 'GET' || method === 'HEAD' || row.writesNothing === true) continue;
      const asked = rig.gateway.asked.length;
      for (const condition of [{ 'If-Match': '"tag"' }, { 'If-None-Match': '*' }]) {
        const answer = await requestOnce(
          port,
          method,
          pathOf(row),
          { 'Content-Type': 'text/plain', ...condition },
          'x',
        );
        const what = `${plane} ${method} ${row.pattern}: ${answer.status} ${answer.body.toString()}`;
        if (row.takesConditions === true) assert.equal(answer.status, 503, what);
        else assert.deepEqual([answer.status, answer.headers.get('millrace-error')], [400, 'INVALID_HEADER'], what);
      }
      const body = row.operation === 'batch' ? '\0\0\0\x01x' : 'x';
      const headers = { 'Content-Type': 'text/plain', 'Stream-Expected-Offset': '7' };
      const answer = await requestOnce(port, method, pathOf(row), headers, body);
      const taken = row.takesExpectedOffset === true;
      assert.equal(taken, row.operation === 'append' || row.operation === 'batch', row.pattern);
      assert.equal(answer.status, taken ? 503 : 400, `${plane} ${method} ${row.pattern}: ${answer.body.toString()}`);
      if (row.takesConditions === true || taken) continue;
      assert.equal(rig.gateway.asked.length, asked, row.pattern);
      refused++;
    }
  }
  assert(refused >= 15, `${refused} rows`);
});

test('Allow names the methods of a path, in a 405 and for OPTIONS', async (t) => {
  const rig = await startRefusing(t, {});
  for (const [port, rows, plane] of rowsOf(rig)) {
    for (const row of rows) {
      const siblings = rows.filter(({ pattern }) => pattern === row.pattern);
      const methods = siblings.flatMap((one) => one.methods);
      const names = siblings.some((one) => one.omitsOptions === true) ? methods : [...methods, 'OPTIONS'];
      const expected = methods.includes('*') ? 'POST, OPTIONS' : names.join(', ');
      const refused = await requestOnce(port, 'PATCH', pathOf(row));
      assert.deepEqual([refused.status, refused.headers.get('allow')], [405, expected], `${plane} ${row.pattern}`);
      const options = await requestOnce(port, 'OPTIONS', pathOf(row));
      const allow = plane === 'client' && !methods.includes('*') ? expected : options.headers.get('allow');
      assert.deepEqual([options.status, options.headers.get('allow')], [204, allow], `${plane} ${row.pattern}`);
    }
  }
});
