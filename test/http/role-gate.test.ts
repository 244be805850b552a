// Tokens with roles over every row of the admin plane and real sockets: each call takes the role that this table names, and a
// token with less is refused before a byte of the body and before a shard is asked.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { OPERATOR_ROLES, type OperatorRole } from '../../src/base/scopes.ts';
import { ADMIN_ROWS, CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { bearer, bookOf, listed, scopeOf, withRole } from '../support/scoped-tokens.ts';
import { type Rig, startPlanes } from './planes.ts';

/** The roles a second time: a change of a row's role is a change of this table. */
const NEEDED: Readonly<Record<string, OperatorRole | 'nothing'>> = {
  'GET /': 'nothing',
  'GET /__svc/health': 'nothing',
  'GET /__svc/ready': 'nothing',
  'GET /__svc/openapi.json': 'observe',
  'GET /__svc/metrics': 'observe',
  'GET /__svc/metrics/history': 'observe',
  'GET /__svc/usage': 'observe',
  'GET /__svc/whoami': 'observe',
  'GET /__svc/leadership-shed': 'observe',
  'GET /__svc/subscriptions': 'observe',
  'GET /__svc/webhook-keys': 'observe',
  'GET /__svc/backup/info': 'observe',
  'GET /__svc/quota/{bucket}': 'observe',
  'GET /__svc/streams/{bucket}': 'observe',
  'GET /__svc/streams/{bucket}/streams': 'observe',
  'HEAD /__svc/streams/{bucket}/{stream}': 'observe',
  'GET /__svc/streams/{bucket}/{stream}': 'operate',
  'GET /__svc/streams/{bucket}/{stream}/attrs': 'operate',
  'GET /__svc/backup/group/{group}': 'operate',
  'PUT /__svc/streams/{bucket}/{stream}': 'operate',
  'PUT /__svc/quota/{bucket}': 'operate',
  'POST /__svc/leadership-shed/maintenance': 'operate',
  'DELETE /__svc/leadership-shed/maintenance': 'operate',
  'POST /__svc/subscriptions/{id}/deliver': 'operate',
  'POST /__svc/webhook-keys': 'operate',
  'POST /__svc/flush-cold/{bucket}/{stream}': 'operate',
  'POST /__svc/raft/{group}/snapshot': 'operate',
  'POST /__svc/raft/{group}/purge': 'operate',
  'POST /__svc/raft/{group}/membership': 'operate',
  'POST /__svc/raft/{group}/learners/{node}': 'operate',
  'DELETE /__svc/raft/{group}/learners/{node}': 'operate',
  'POST /__svc/raft/{group}/leader/transfer/{node}': 'operate',
  'POST /__svc/raft/{group}/nodes/{node}/allow-next-revert': 'destroy',
  'POST /__svc/streams/{bucket}/{stream}': 'destroy',
  'DELETE /__svc/streams/{bucket}/{stream}': 'destroy',
  'DELETE /__svc/webhook-keys': 'destroy',
  'POST /__svc/backup/group/{group}/import': 'destroy',
  'DELETE /__svc/purge/{bucket}': 'destroy',
};

const TOKENS = [
  ...OPERATOR_ROLES.map((role) => withRole(role, role)),
  withRole('old', 'destroy', Date.now() - 1),
  withRole('lost', 'destroy'),
];

const VALUES: Readonly<Record<string, string>> = { bucket: 'b', stream: 's', node: '2', id: 'x', group: '0' };

interface Asked {
  readonly row: RouteRow;
  readonly method: string;
  readonly path: string;
}

function requests(rows: readonly RouteRow[]): Asked[] {
  const path = ({ pattern }: RouteRow): string =>
    pattern.replace(/\{(\w+)\}/g, (_, name: string) => VALUES[name] ?? '0').replace('*', 'other');
  return rows.flatMap((row) =>
    row.methods.map((one) => ({ row, method: one === '*' ? 'POST' : one, path: path(row) })),
  );
}

function neededFor({ row: { pattern }, method }: Asked): OperatorRole | 'nothing' | undefined {
  return NEEDED[`${method} ${pattern}`] ?? (method === 'HEAD' ? NEEDED[`GET ${pattern}`] : undefined);
}

/** Both planes over shards that refuse everything. */
async function startRoles(t: TestContext): Promise<Rig> {
  const keys = { show: () => Promise.resolve([]), rotate: () => Promise.resolve([]) };
  const settings = { adminToken: 'a-token-with-all-rights-0123456789', adminTokens: bookOf(TOKENS, ['lost']) };
  const rig = await startPlanes(t, settings, true, { webhookKeys: keys });
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('BUCKET_NOT_EMPTY'));
  return rig;
}

/** The answer to a head whose body does not come. */
async function answerToHead(port: number, { method, path }: Asked, authorization?: string): Promise<RawResponse> {
  const client = await RawClient.connect(port);
  try {
    const lines = [
      ...[`${method} ${path} HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json'],
      ...(method === 'PUT' || method === 'POST' ? ['Content-Length: 2'] : []),
      ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
    ];
    return await client.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), method === 'HEAD');
  } finally {
    client.destroy();
  }
}

function codeOf({ status, headers }: RawResponse): string {
  return `${status} ${headers.get('millrace-error') ?? ''}`;
}

async function answerToWhole(port: number, { method, path }: Asked, authorization: string): Promise<RawResponse> {
  const headers = { 'Content-Type': 'application/json', Authorization: authorization };
  return await requestOnce(port, method, path, headers, method === 'PUT' || method === 'POST' ? '{}' : undefined);
}

test('every row of the admin plane has the role that the table names, and none a right of the client plane', () => {
  const asked = requests(ADMIN_ROWS);
  for (const one of asked) {
    const { role, access, right } = one.row;
    assert.equal(access === undefined ? role : 'nothing', neededFor(one), `${one.method} ${one.row.pattern}`);
    assert.equal(right, undefined);
  }
  const known = new Set(asked.map(({ method, row }) => `${method} ${row.pattern}`));
  assert.deepEqual(
    Object.keys(NEEDED).filter((key) => !known.has(key)),
    [],
  );
  assert(CLIENT_ROWS.every(({ role }) => role === undefined));
});

test('a token does what its role includes, and is told the role that it lacks', async (t) => {
  const rig = await startRoles(t);
  let refused = 0;
  for (const asked of requests(ADMIN_ROWS)) {
    const needed = neededFor(asked);
    if (needed === undefined || needed === 'nothing') continue;
    for (const role of OPERATOR_ROLES) {
      const what = `${asked.method} ${asked.path} with ${role}`;
      const before: number = rig.gateway.asked.length;
      if (OPERATOR_ROLES.indexOf(role) >= OPERATOR_ROLES.indexOf(needed)) {
        const { status } = await answerToWhole(rig.adminPort, asked, bearer(role).Authorization);
        assert(status !== 401 && status !== 403, `${what}: ${status}`);
        continue;
      }
      const answer = await answerToHead(rig.adminPort, asked, bearer(role).Authorization);
      assert.equal(codeOf(answer), '403 INSUFFICIENT_SCOPE', what);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"', what);
      const sentence: string = `the token does not allow that: this takes the role ${needed}, and "${role}" has ${role}\n`;
      if (asked.method !== 'HEAD') assert.equal(answer.body.toString(), sentence, what);
      assert.equal(rig.gateway.asked.length, before, `${what}: no shard is asked`);
      refused++;
    }
  }
  assert(refused > 20);
  assert.equal(rig.counters.access.denied, refused);
});

test('no other token opens a route of the admin plane', async (t) => {
  const rig = await startRoles(t);
  const bad: readonly (readonly [string, string | undefined, string])[] = [
    ['none', undefined, 'Bearer'],
    ['another scheme', 'Basic eDp5', 'Bearer'],
    ['unknown', 'Bearer another', 'the token is not known'],
    ['empty', 'Bearer ', 'Bearer'],
    ['cut', bearer('destroy').Authorization.slice(0, -1), 'the token is not known'],
    ['the digest', `Bearer ${TOKENS[0]?.sha256}`, 'the token is not known'],
    ['expired', bearer('old').Authorization, 'the token has expired'],
    ['revoked', bearer('lost').Authorization, 'the token was revoked'],
    ['oversized', `Bearer ${'x'.repeat(9000)}`, 'the token is longer than a token may be'],
  ];
  for (const asked of requests(ADMIN_ROWS)) {
    for (const [name, authorization, why] of bad) {
      const what = `${asked.method} ${asked.path} with ${name}`;
      const before = rig.gateway.asked.length;
      const answer = await answerToHead(rig.adminPort, asked, authorization);
      if (neededFor(asked) === 'nothing') {
        assert.notEqual(answer.status, 401, what);
        continue;
      }
      assert.equal(codeOf(answer), '401 UNAUTHORIZED', what);
      assert.equal(rig.gateway.asked.length, before, what);
      assert(answer.headers.get('www-authenticate')?.includes(why), what);
    }
  }
});

test('a token of the one plane opens nothing of the other, even in the wrong book', async (t) => {
  const everything = listed('scoped', [scopeOf('*', '*', 'create', 'append', 'read', 'delete', 'list', 'subscribe')]);
  const rig = await startPlanes(t, {
    ...{ clientTokens: bookOf([withRole('destroy', 'destroy')]), adminTokens: bookOf([everything]) },
  });
  const planes = [
    [rig.port, CLIENT_ROWS, 'destroy'],
    [rig.adminPort, ADMIN_ROWS, 'scoped'],
  ] as const;
  for (const [port, rows, token] of planes) {
    for (const asked of requests(rows)) {
      // Not served without webhooks, subscriptions, or beside a cluster plane.
      if (asked.row.access !== undefined || /webhook-keys|__ds|leadership-shed$/.test(asked.path)) continue;
      const answer = await answerToHead(port, asked, bearer(token).Authorization);
      assert.equal(codeOf(answer), '403 INSUFFICIENT_SCOPE', `${asked.method} ${asked.path}`);
    }
  }
  assert.equal(rig.gateway.asked.length, 0);
});

test('the node says who asks, and whether a token has a role or all rights', async (t) => {
  const { adminPort } = await startRoles(t);
  const bodyOf = async (path: string, authorization?: string): Promise<string> =>
    (
      await requestOnce(adminPort, 'GET', path, authorization === undefined ? {} : { Authorization: authorization })
    ).body
      .toString()
      .trim();
  assert.equal(await bodyOf('/__svc/whoami', bearer('observe').Authorization), '{"token":"observe","role":"observe"}');
  const all = 'Bearer a-token-with-all-rights-0123456789';
  assert.equal(await bodyOf('/__svc/whoami', all), '{"token":null,"role":"destroy"}');
});
