// Tokens in URLs, against a real process: every route with one, every way to send one wrongly, what caches and pages may
// do with the answers, and that no token shows in what the node says or writes.
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SCOPED_TOKEN_BYTES_MAX } from '../../src/base/limits.ts';
import { CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { type HeaderList, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const folder = temporaryFolder('url-tokens');
const keyFile = join(folder, 'key.pem');
const ROOT = { Authorization: 'Bearer root-0123456789abcdef0123456789abcdef' };
const server = new TestServer({
  ...{ cores: 1, groups: 4, longPollTimeout: '50ms' },
  http: `client_token = "${ROOT.Authorization.slice(7)}"\nsigning_key_file = "${keyFile}"\nread_cache = "private"`,
});

async function ask(headers: HeaderList, method: string, path: string, body?: string): Promise<RawResponse> {
  return await requestOnce(server.port, method, path, { 'Content-Type': 'text/plain', ...headers }, body);
}

const NAMES = { bucket: 'shop', stream: 'a*', id: 'x', offset: '00000000000000000005' } as const;
const STREAM = '/shop/a*';

/** One for the stream `a*` alone. */
async function made(more: object = { use: 'url' }): Promise<string> {
  const scopes = [{ bucket: 'shop', stream: NAMES.stream, operations: ['read'] }];
  const { status, body } = await ask(
    ROOT,
    'POST',
    '/__svc/tokens',
    JSON.stringify({ scopes, expires_in: 600, ...more }),
  );
  assert.equal(status, 201, body.toString());
  return (JSON.parse(body.toString()) as { readonly token: string }).token;
}

let token = '';

before(async () => {
  const { privateKey } = generateKeyPairSync('ed25519');
  writeFileSync(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  await server.start();
  for (const stream of ['a*', 'a-1']) assert.equal((await ask(ROOT, 'PUT', `/shop/${stream}`, 'first')).status, 201);
  assert.equal((await ask(ROOT, 'PUT', '/shop/page', '<a href="https://elsewhere.example">')).status, 201);
  assert.equal((await ask(ROOT, 'PUT', `${STREAM}/snapshot/5`, 'snapshot')).status, 204);
  token = await made();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

function pathOf({ pattern }: RouteRow): string {
  return pattern.replace('*', 'other').replace(/\{(\w+)\}/g, (_, name: keyof typeof NAMES) => NAMES[name]);
}

test('a token in a URL opens the rows that take one, and no other', async () => {
  const opened: string[] = [];
  for (const row of CLIENT_ROWS) {
    for (const one of row.methods) {
      for (const method of one === '*' ? ['GET', 'POST', 'PUT', 'DELETE'] : [one]) {
        const path = row.pattern === '/{bucket}/{stream}' ? STREAM : pathOf(row);
        const flat = path === STREAM ? [`/v1/stream/shop/${NAMES.stream}`] : [];
        for (const url of [path, ...flat]) {
          const answer = await ask({}, method, `${url}?access_token=${token}`, method === 'GET' ? undefined : '');
          const what = `${method} ${url}: ${answer.status} ${answer.body.toString()}`;
          if (row.takesUrlToken === true) {
            assert(answer.status < 400, what);
            opened.push(`${method} ${row.pattern}`);
            continue;
          }
          if (row.access === undefined) assert([401, 403, 404].includes(answer.status), what);
          assert(!answer.body.toString().includes(token) && !JSON.stringify([...answer.headers]).includes(token), what);
        }
      }
    }
  }
  assert.deepEqual(
    [...new Set(opened)],
    [
      ...['GET /{bucket}/{stream}', 'HEAD /{bucket}/{stream}'],
      ...['GET /{bucket}/{stream}/snapshot', 'HEAD /{bucket}/{stream}/snapshot'],
      ...['GET /{bucket}/{stream}/snapshot/{offset}', 'HEAD /{bucket}/{stream}/snapshot/{offset}'],
      ...['GET /{bucket}/{stream}/bootstrap', 'HEAD /{bucket}/{stream}/bootstrap'],
    ],
  );
  const { body } = await ask(ROOT, 'GET', STREAM);
  assert.equal(body.toString(), 'first', 'nothing was written');
  // The name of the scope is that of one stream, although it ends in a star.
  assert.equal((await ask({}, 'GET', `/shop/a-1?access_token=${token}`)).status, 404);
});

test('a token that comes in the wrong place, or more than once, is refused in words', async () => {
  const normal = await made({});
  const expired = await made({ expires_in: 1, use: 'url' });
  const forged = `${token.slice(0, -8)}AAAAAAAA`;
  const cases: readonly (readonly [headers: HeaderList, method: string, query: string, status: number, why: RegExp])[] =
    [
      [ROOT, 'GET', `access_token=${token}`, 400, /one token/],
      [ROOT, 'HEAD', `access_token=${token}`, 400, /^$/],
      [{ Authorization: 'Bearer nonsense' }, 'GET', `access_token=${token}`, 400, /one token/],
      [{}, 'GET', `access_token=${token}&access_token=${token}`, 400, /one token/],
      [{}, 'GET', `access_token=&access_token=${token}`, 400, /one token/],
      [{ Authorization: `Bearer ${token}` }, 'GET', 'offset=-1', 401, /is for URLs/],
      [{}, 'GET', `access_token=${normal}`, 401, /was not made for URLs/],
      [{}, 'GET', `access_token=${ROOT.Authorization.slice(7)}`, 401, /was not made for URLs/],
      ...['', '.', '..', 'a.b.c', '%00', '%zz', '<script>', 'eyJhbGciOiJub25lIn0.e30.', `${token}.`, `%20${token}`].map(
        (sent) => [{}, 'GET', `access_token=${sent}`, 401, /was not made for URLs/] as const,
      ),
      [{}, 'GET', `access_token=${forged}`, 401, /signature of the token is wrong/],
      [{}, 'GET', `access_token=${'x'.repeat(SCOPED_TOKEN_BYTES_MAX + 1)}`, 401, /longer than/],
      [{}, 'POST', `access_token=${token}`, 401, /a token in the URL opens reads/],
      [{}, 'DELETE', `access_token=${token}`, 401, /a token in the URL opens reads/],
      [{}, 'GET', `Access_Token=${token}`, 401, /a valid bearer token is required/],
      [{}, 'GET', `access%5Ftoken=${token}`, 401, /a valid bearer token is required/],
      [{}, 'GET', `xaccess_token=${token}`, 401, /a valid bearer token is required/],
      [{}, 'GET', 'access_token', 401, /a valid bearer token is required/],
      // Where another token counts, that one is looked at alone.
      [ROOT, 'POST', `access_token=${token}`, 204, /^$/],
    ];
  for (const [headers, method, query, status, why] of cases) {
    const answer = await ask(headers, method, `${STREAM}?${query}`, method === 'POST' ? 'more' : undefined);
    const text = answer.body.toString();
    assert.equal(answer.status, status, `${method} ${query.slice(0, 80)}: ${text}`);
    assert.match(text, why, query.slice(0, 80));
    assert(!text.includes(token) && !text.includes(normal), text);
    if (status === 401) assert.match(answer.headers.get('www-authenticate') ?? '', /^Bearer/);
  }
  const ended = async (): Promise<RawResponse> => await ask({}, 'GET', `${STREAM}?access_token=${expired}`);
  const live = await within(
    ask({}, 'GET', `${STREAM}?offset=now&live=sse&access_token=${await made({ expires_in: 2, use: 'url' })}`),
    PATIENCE_MS,
    'the end of an event stream',
  );
  assert.match(live.body.toString(), /event: error\ndata:a valid bearer token is required/);
  assert.match((await ended()).body.toString(), /the token has expired/);
});

test('answers to links are kept by no shared cache, show their URL to no other site, and lead on', async () => {
  const read = await ask({}, 'GET', `${STREAM}?offset=-1&access_token=${token}`);
  assert.match(read.headers.get('cache-control') ?? '', /^private, /);
  const tag = read.headers.get('etag') ?? '';
  assert.equal(tag, (await ask(ROOT, 'GET', `${STREAM}?offset=-1`)).headers.get('etag'));
  const again = await ask({ 'If-None-Match': tag }, 'GET', `${STREAM}?offset=-1&access_token=${token}`);
  assert.equal(again.status, 304);
  assert.match(again.headers.get('cache-control') ?? '', /^private, /);
  const latest = await ask({}, 'GET', `${STREAM}/snapshot?access_token=${token}`);
  assert.deepEqual([latest.status, latest.headers.get('cache-control')], [307, 'no-store']);
  const location = latest.headers.get('location') ?? '';
  assert.equal((await ask({}, 'GET', location)).body.toString(), 'snapshot');
  assert.equal((await ask(ROOT, 'GET', `${STREAM}/snapshot`)).headers.get('location')?.includes('?'), false);
  assert.equal((await ask(ROOT, 'DELETE', '/shop/page')).status, 204);
  assert.equal((await ask({ ...ROOT, 'Content-Type': 'text/html' }, 'PUT', '/shop/page', '<a href=x>')).status, 201);
  const page = await ask(ROOT, 'GET', '/shop/page');
  assert.equal(page.headers.get('referrer-policy'), 'no-referrer');
});

test('no token shows in the log or the metrics, and each refusal is counted', async () => {
  const { body } = await server.admin.expect(200, 'GET', '/__svc/metrics');
  const text = body.toString();
  for (const shown of [server.log(), text]) assert(!/eyJ[\w-]+\.[\w-]+/.test(shown));
  const { token_misplaced: misplaced, tokens_signed: signed } = JSON.parse(text) as Record<string, number>;
  assert.equal(signed, 4);
  assert((misplaced ?? 0) >= 20, String(misplaced));
});
