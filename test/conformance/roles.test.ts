// Tokens with roles against a real process: a file that SIGHUP reads again, live readers of the admin plane that end with
// their token, and a client plane that knows none of them.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { OperatorRole } from '../../src/base/scopes.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { clusterFileOf, ctl } from '../support/ctl.ts';
import { bearer, textOf, withRole } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const folder = temporaryFolder('roles');
const file = join(folder, 'admin-tokens.toml');
/** Without http.admin_token: the file alone guards the plane. */
const server = new TestServer({ process: true, http: `admin_tokens_file = "${file}"` });

function write(roles: Readonly<Record<string, OperatorRole>>, revoked: readonly string[] = []): void {
  const entries = Object.entries(roles).map(
    ([id, role]) => `[[tokens]]\nid = "${id}"\nsha256 = "${withRole(id, role).sha256}"\nrole = "${role}"\n`,
  );
  writeFileSync(`${file}.new`, `revoked = ${JSON.stringify(revoked)}\n${entries.join('')}`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

async function ask(token: string, method: string, path: string, body?: string): Promise<RawResponse> {
  return await requestOnce(server.adminPort, method, path, { ...bearer(token), 'Content-Type': 'text/plain' }, body);
}

async function statusOf(token: string, method: string, path: string): Promise<number> {
  return (await ask(token, method, path)).status;
}

const ROLES = { watcher: 'observe', runner: 'operate', breaker: 'destroy' } as const;

before(async () => {
  write(ROLES);
  await server.start();
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

test('each role does its part, and lists are whole', async () => {
  assert.equal(await statusOf('watcher', 'PUT', '/__svc/streams/shop/one'), 403);
  assert.equal(await statusOf('runner', 'PUT', '/__svc/streams/shop/one'), 201);
  assert.equal((await ask('runner', 'POST', '/__svc/streams/shop/one', 'x')).status, 403);
  assert.equal((await ask('breaker', 'POST', '/__svc/streams/shop/one', 'x')).status, 204);
  const listed = JSON.parse((await ask('watcher', 'GET', '/__svc/streams/shop/streams')).body.toString()) as object;
  assert.equal('stream_count' in listed && listed.stream_count, 1);
  assert.equal(await statusOf('watcher', 'GET', '/__svc/streams/shop/one'), 403);
  assert.equal(await statusOf('runner', 'GET', '/__svc/streams/shop/one'), 200);
  const detail = JSON.parse((await ask('watcher', 'GET', '/__svc/ready')).body.toString()) as object;
  assert('leaderless_groups' in detail, 'a role is enough to be told what is missing');
  const told = JSON.parse((await requestOnce(server.adminPort, 'GET', '/__svc/ready')).body.toString()) as object;
  assert.deepEqual(told, { ready: true }, 'no token is not');
  // The client plane asks for no token here, so these are no business of its own.
  assert.equal((await requestOnce(server.port, 'GET', '/shop/one', bearer('breaker'))).status, 200);
});

test('the tool says which role a call takes, and why a token is refused', async () => {
  const config = clusterFileOf(server);
  const run = async (token: string, ...args: string[]): ReturnType<typeof ctl> =>
    await ctl([...args, '--config', config], { env: { MILLRACE_ADMIN_TOKEN: textOf(token) } });
  assert.equal((await run('watcher', 'status')).code, 0);
  const refused = await run('watcher', 'bucket', 'purge', '--bucket', 'none', '--confirm', 'none');
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /403 \(.*: this takes the role destroy, and "watcher" has observe\)/);
  assert.equal((await run('breaker', 'bucket', 'purge', '--bucket', 'none', '--confirm', 'none')).code, 0);
  write(ROLES, ['runner']);
  await server.hangUp();
  assert.match((await run('runner', 'status')).stdout, /it refuses the bearer token .*: the token was revoked/);
  write(ROLES);
  await server.hangUp();
});

test('a reload changes, revokes and adds tokens; live readers end with theirs', async () => {
  write({ ...ROLES, guest: 'operate' });
  assert.equal((await server.hangUp())['admin_tokens'], 'changed');
  const live = `http://127.0.0.1:${server.adminPort}/__svc/streams/shop/one?offset=-1&live=sse`;
  const answer = await fetch(live, { headers: bearer('guest') });
  assert.equal(answer.status, 200);
  const rest = within(answer.text(), PATIENCE_MS, 'the end of the answer');
  write({ ...ROLES, guest: 'operate', watcher: 'operate' }, ['guest']);
  await server.hangUp();
  assert.match(await rest, /event: error\ndata:.*valid bearer token/);
  assert.equal(await statusOf('guest', 'GET', '/__svc/metrics'), 401);
  assert.equal(await statusOf('watcher', 'GET', '/__svc/streams/shop/one'), 200, 'the watcher operates now');
  // A file that cannot be used, or is that of the other plane, leaves the tokens before.
  writeFileSync(file, `[[tokens]]\nid = "x"\nsha256 = "${'a'.repeat(64)}"\nrole = "admin"\n`);
  assert.match(
    String((await server.hangUp())['reason']),
    /tokens\[0\]\.role: expected one of observe, operate, destroy/,
  );
  const scopes = '[[tokens.scopes]]\nbucket = "*"\noperations = ["read"]\n';
  writeFileSync(file, `[[tokens]]\nid = "x"\nsha256 = "${'a'.repeat(64)}"\n${scopes}`);
  assert.match(
    String((await server.hangUp())['reason']),
    /its tokens have scopes, which are for the plane of http\.tokens_file/,
  );
  assert.equal(await statusOf('runner', 'GET', '/__svc/metrics'), 200);
  write(ROLES);
  await server.hangUp();
  assert.equal(await statusOf('watcher', 'GET', '/__svc/streams/shop/one'), 403);
});
