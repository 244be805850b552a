// The audit log of a process: its own file, rotation and reloads by SIGHUP, the process log without one, and no secret.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { AuditEntry } from '../../src/audit/entry.ts';
import { requestOnce } from '../support/raw-client.ts';
import { listed, scopeOf, textOf } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const CLIENT = 'client-secret-0123456789abcdef0123';
const ADMIN = 'admin-secret-0123456789abcdef01234';
const NEXT_ADMIN = 'next-admin-secret-0123456789abcdef';

type Line = AuditEntry & { readonly time: string; readonly component: string; readonly node: number };

function linesOf(text: string): Line[] {
  const lines = text.split('\n').slice(0, -1);
  return lines.filter((line) => line.includes('"component":"audit"')).map((line) => JSON.parse(line) as Line);
}

function fileOfTokens(ids: readonly string[], revoked: readonly string[]): string {
  const scope = scopeOf('b', '*', 'read', 'delete');
  const entries = ids.map(
    (
      id,
    ) => `[[tokens]]\nid = "${id}"\nsha256 = "${listed(id, [scope]).sha256}"\n[[tokens.scopes]]\nbucket = "${scope.bucket}"\nstreams = "*"
operations = ${JSON.stringify(scope.operations)}\n`,
  );
  return `revoked = ${JSON.stringify(revoked)}\n${entries.join('')}`;
}

interface Rig {
  readonly server: TestServer;
  readonly file: string;
  readonly tokens: string;
  configure(adminToken: string): void;
}

async function start(t: TestContext): Promise<Rig> {
  const folder = temporaryFolder('audit');
  const [file, tokens] = [join(folder, 'audit.log'), join(folder, 'tokens.toml')];
  writeFileSync(tokens, fileOfTokens(['a', 'b'], []), { mode: 0o600 });
  const server = new TestServer({ process: true });
  const configure = (adminToken: string): void =>
    writeFileSync(
      server.configFile,
      `[http]\nclient_token = "${CLIENT}"\nadmin_token = "${adminToken}"\ntokens_file = "${tokens}"\n[audit]\nfile = "${file}"\n`,
    );
  configure(ADMIN);
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  return { server, file, tokens, configure };
}

const withToken = (token: string): Record<string, string> => ({ Authorization: `Bearer ${token}` });

async function untilLines(file: string, count: number): Promise<Line[]> {
  await until(
    `${count} lines in ${file}`,
    () => existsSync(file) && linesOf(readFileSync(file, 'utf8')).length >= count,
  );
  return linesOf(readFileSync(file, 'utf8'));
}

test('the file takes the lines, is rotated, tells of tokens by their ids, and holds no secret', async (t) => {
  const { server, file, tokens, configure } = await start(t);
  const { port, adminPort } = server;
  await server.waitUntil('ready');
  assert.equal(
    (await requestOnce(port, 'PUT', '/b/s', { ...withToken(CLIENT), 'Content-Type': 'text/plain' })).status,
    201,
  );
  assert.equal((await requestOnce(port, 'DELETE', '/b/s', withToken(textOf('a')))).status, 204);
  assert.equal((await requestOnce(port, 'GET', '/b/s', withToken(textOf('c')))).status, 401);
  assert.equal((await requestOnce(adminPort, 'GET', '/__svc/usage', withToken(ADMIN))).status, 200);
  const before = await untilLines(file, 3);
  assert.deepEqual(
    before.map(({ event, who, node, status }) => [event, who, node, status]),
    [
      ['deleted', 'token:a', 1, 204],
      ['denied', 'anonymous', 1, 401],
      ['admin', 'admin_token', 1, 200],
    ],
  );
  assert.match(before[0]?.time ?? '', /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  assert.equal(statSync(file).mode & 0o777, 0o600);

  renameSync(file, `${file}.1`);
  writeFileSync(tokens, fileOfTokens(['b', 'c'], ['b']));
  configure(NEXT_ADMIN);
  assert.equal((await server.hangUp())['msg'], 'reloaded');
  const after = await untilLines(file, 4);
  assert.deepEqual(
    after.map(({ event, what, token }) => [event, what, token]),
    [
      ['tokens', 'admin token replaced', undefined],
      ['tokens', 'token added', 'c'],
      ['tokens', 'token removed', 'a'],
      ['tokens', 'revocation added', 'b'],
    ],
  );
  assert.equal((await server.hangUp())['msg'], 'reloaded');
  assert.equal((await requestOnce(adminPort, 'GET', '/__svc/usage', withToken(ADMIN))).status, 401);
  assert.equal(await server.stop(), 0);
  const all = readFileSync(`${file}.1`, 'utf8') + readFileSync(file, 'utf8') + server.log();
  assert.equal(
    linesOf(all).length,
    8,
    'a reload without changes leaves no line, and the process log has none of these',
  );
  for (const secret of [CLIENT, ADMIN, NEXT_ADMIN, textOf('a'), textOf('b'), textOf('c'), '0123456789abcdef']) {
    assert(!all.includes(secret), secret);
  }
});

test('without a file the process log has the lines, whatever its level, and what is wrong ends the start', async () => {
  await withServer({}, async (server) => {
    await requestOnce(server.adminPort, 'DELETE', '/__svc/purge/b');
    const [line, ...others] = linesOf(server.log());
    assert.deepEqual([line?.event, line?.who, line?.what], ['admin', 'anonymous', 'DELETE /__svc/purge/{bucket}']);
    assert.deepEqual(others, []);
  });
  const server = new TestServer({ toml: '[audit]\nfile = "/nowhere/audit.log"\n' });
  try {
    await server.start().catch(() => undefined);
    assert.equal(await server.exited, 2);
    assert.match(server.log(), /audit\.file: \/nowhere\/audit\.log cannot be opened/);
  } finally {
    await server.dispose();
  }
});
