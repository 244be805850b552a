// The verb `audit`: lines of a file and of a process log, filters, and names that would drive a terminal.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type CtlResult, ctl } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const folder = temporaryFolder('audit-verb');
after(() => removeFolder(folder));
const file = join(folder, 'audit.log');

const ESC = '\u001b]0;owned\u0007\u001b[2J\u009b2J\u202e';
const now = Date.now();
const ago = (minutes: number): string => new Date(now - minutes * 60_000).toISOString();
const LINES: readonly object[] = [
  {
    time: ago(300),
    event: 'deleted',
    who: 'token:till-7',
    from: '203.0.113.9',
    via: '10.0.0.7',
    what: 'DELETE /{bucket}/{stream}',
    path: '/shop/orders-1',
    bucket: 'shop',
    stream: 'orders-1',
    status: 204,
    request_id: 'r1',
  },
  {
    time: ago(10),
    event: 'denied',
    who: 'anonymous',
    from: '198.51.100.2',
    what: 'GET /b',
    path: '/b',
    status: 401,
    code: 'UNAUTHORIZED',
    reason: 'expired',
    repeated: 812,
  },
  { time: ago(9), event: 'tokens', who: 'node', what: 'token added', token: 'agent-7' },
  {
    time: ago(8),
    event: 'admin',
    who: 'admin_token',
    from: '::1',
    what: 'DELETE /__svc/purge/{bucket}',
    path: `/__svc/purge/${ESC}`,
    status: 0,
  },
  {
    time: ago(7),
    event: 'deleted',
    who: 'token:till-7',
    from: '::1',
    what: 'session delete',
    bucket: 'shop',
    stream: `x${ESC}`,
    status: 404,
    code: 'STREAM_NOT_FOUND',
  },
];
const NOISE = [
  '',
  'not JSON "audit"',
  '{"component":"http","msg":"audit"}',
  '{"component":"audit"}',
  'null',
  '"audit"',
  '["audit"]',
];

const text = [...LINES.map((line) => JSON.stringify({ level: 'info', component: 'audit', ...line })), ...NOISE].join(
  '\n',
);
writeFileSync(file, text);

async function shown(...args: string[]): Promise<string[]> {
  const { code, stdout, stderr }: CtlResult = await ctl(['audit', file, ...args]);
  assert.equal(code, 0, stderr);
  // Nothing that a terminal obeys.
  assert.doesNotMatch(stdout, /(?!\n)[\p{Cc}\u202a-\u202e]/u);
  return stdout.split('\n').slice(0, -1);
}

test('a table for people: who, from where, what, and what came of it', async () => {
  const [head = '', ...rows] = await shown();
  assert.match(head, /^time +event +who +from +what +result$/);
  assert.deepEqual(
    rows.map((row) => row.replace(/^\S+ +/, '').split(/ {2,}/)),
    [
      ['deleted', 'token:till-7', '203.0.113.9 via 10.0.0.7', 'DELETE /shop/orders-1', '204'],
      ['denied', 'anonymous (expired)', '198.51.100.2', 'GET /b', '401 UNAUTHORIZED and 812 more'],
      ['tokens', 'node', 'token added agent-7'],
      ['admin', 'admin_token', '::1', rows[3]?.match(/DELETE \S+/)?.[0], 'no answer'],
      ['deleted', 'token:till-7', '::1', rows[4]?.match(/session delete \S+/)?.[0], '404 STREAM_NOT_FOUND'],
    ],
  );
});

test('filters', async () => {
  const count = async (...args: string[]): Promise<number> => (await shown('-o', 'json', ...args)).length;
  assert.equal(await count(), 5);
  assert.equal(await count('--since', '1h'), 4);
  assert.equal(await count('--since', ago(9)), 3);
  assert.equal(await count('--denied'), 1);
  assert.equal(await count('--who', 'till-7'), 2);
  assert.equal(await count('--who', '10.0.0.7'), 1);
  assert.equal(await count('--who', 'agent-7'), 1);
  assert.equal(await count('--what', 'DELETE'), 2);
  assert.equal(await count('--what', 'shop', '--who', '::1'), 1);
  assert.equal(await count('--denied', '--who', 'till-7'), 0);
  const [line = ''] = await shown('--json', '--who', '203.0.113.9');
  assert.deepEqual(JSON.parse(line), { level: 'info', component: 'audit', ...LINES[0] });
});

test('stdin is read as well, and a file that is not there is told', async () => {
  const { stdout } = await ctl(['audit', '-', '--json'], { input: text });
  assert.equal(stdout.split('\n').length - 1, 5);
  const { code, stderr } = await ctl(['audit', join(folder, 'none.log')]);
  assert.equal(code, 1);
  assert.match(stderr, /none\.log cannot be read: /);
});
