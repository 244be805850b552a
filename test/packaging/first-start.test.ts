// First starts of a new user that do not work: one sentence each, and no promise that the host cannot
// keep.
import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../src/config/load.ts';
import { listenError } from '../../src/http/listener.ts';
import { greeting } from '../../src/server/greeting.ts';
import { type User, giveTo, ordinaryUser } from '../support/ctl.ts';
import { REPO_ROOT, SERVER_ENTRY } from '../support/paths.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const EXIT_CONFIG = 2;
const SHARED_MEMORY = '/dev/shm';

const found = ordinaryUser();
const user: User = typeof found === 'string' ? {} : found;
const skip = typeof found === 'string' ? found : false;

function ownFolder(t: TestContext): string {
  const folder = temporaryFolder('first-start');
  giveTo(user, folder);
  t.after(() => removeFolder(folder));
  return folder;
}

function start(args: readonly string[], cwd: string): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, args, { ...user, cwd, encoding: 'utf8', timeout: PATIENCE_MS });
}

test('a port below 1024 needs a privilege, which is not said to be in use', { skip }, (t) => {
  const folder = ownFolder(t);
  const listen = ['--listen', '127.0.0.1:80', '--admin-listen', '127.0.0.1:0'];
  const { status, stderr } = start([SERVER_ENTRY, '--data', join(folder, 'data'), ...listen], folder);
  assert.equal(status, EXIT_CONFIG, stderr);
  assert.match(
    stderr,
    /^millrace: cannot listen on 127\.0\.0\.1:80 for the client plane: ports below 1024 need a privilege/m,
  );
  assert.doesNotMatch(stderr, /in use|\n +at /);
});

test('an address that cannot be listened on is told from a port in use', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  const why = async (host: string, at: number): Promise<string> => (await listenError('client', host, at)).message;
  assert.match(await why('127.0.0.1', port), /: the port is in use by another process$/);
  assert.match(await why('192.0.2.1', port), /: the address does not belong to this host$/);
  assert.match(await why('no-such-host.invalid', port), /: the name is not known here; give an address$/);
});

test('a checkout that is not built and cannot be written is a sentence', { skip }, (t) => {
  const folder = temporaryFolder('checkout');
  t.after(() => removeFolder(folder));
  chmodSync(folder, 0o755);
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(REPO_ROOT, name), join(folder, name));
  mkdirSync(join(folder, 'scripts'));
  for (const name of ['bootstrap.mjs', 'node-support.mjs']) {
    cpSync(join(REPO_ROOT, 'scripts', name), join(folder, 'scripts', name));
  }
  // When the tests run as an ordinary user: a read-only directory of that user.
  if (user.uid === undefined) chmodSync(folder, 0o555);
  const { status, stderr } = start(['scripts/bootstrap.mjs', 'run', 'main.js'], folder);
  chmodSync(folder, 0o755);
  assert.equal(status, 1, stderr);
  assert.match(
    stderr,
    /^millrace: \S+ is not built, and this user cannot write there \(EACCES\): run "npm ci && npm run build"/,
  );
  assert.doesNotMatch(stderr, /\n +at /);
});

test('a data directory that cannot be made is a sentence', { skip }, (t) => {
  const folder = temporaryFolder('foreign');
  t.after(() => removeFolder(folder));
  chmodSync(folder, 0o555);
  const { status, stderr } = start([SERVER_ENTRY, '--data', join(folder, 'data')], '/');
  assert.equal(status, EXIT_CONFIG, stderr);
  assert.match(stderr, /^millrace: storage\.data_dir \S+: cannot be created \(EACCES/m);
});

test('stack traces name lines of src where source maps are asked for', () => {
  const fault = `data:text/javascript,${encodeURIComponent("process.umask = () => { throw new Error('a fault'); };")}`;
  const args = ['--enable-source-maps', '--import', fault, SERVER_ENTRY];
  const { stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.match(stderr, /src\/server\/process\.ts:\d+/);
});

test('nothing is promised about a data directory in memory', { skip: !existsSync(SHARED_MEMORY) }, async (t) => {
  const folder = mkdtempSync(join(SHARED_MEMORY, 'millrace-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const server = new TestServer({ process: true, dataDir: join(folder, 'data') });
  t.after(() => server.dispose());
  await server.start();
  await server.logged(/durable +NO: the data directory is in memory \(tmpfs\)/);
  await server.logged(/"level":"warn".*the data directory is in memory/);
  assert.doesNotMatch(server.log(), /is on disk/);
});

test('the suggested command works verbatim, also with a certificate and a token', () => {
  const plain = loadConfig([]);
  // The ports that it got, whatever it asked for.
  const [client, admin] = [
    { host: '127.0.0.1', port: 4711 },
    { host: '127.0.0.1', port: 4712 },
  ];
  const facts = { client, admin, shardCount: 1, startMs: 3, onDisk: true };
  assert.match(greeting(plain, facts), /admin +http:\/\/127\.0\.0\.1:4712 /);
  const tryLine = (config: typeof plain): string => /try +(.*)$/m.exec(greeting(config, facts))?.[1] ?? '';
  assert.match(tryLine(plain), /^curl -X PUT http:\/\/127\.0\.0\.1:4711\/demo\/hello && curl -X POST -H 'Content-Type/);
  const guarded = {
    ...plain,
    server: { ...plain.server, tls: { certPath: '/etc/cert.pem', keyPath: '/etc/key.pem' } },
    http: { ...plain.http, clientToken: 'secret-of-the-clients' },
  };
  const line = tryLine(guarded);
  assert.equal(line.split(' --cacert /etc/cert.pem -H "Authorization: Bearer $TOKEN"').length, 3, line);
  assert.match(line, /https:\/\/127\.0\.0\.1:4711/);
  assert.doesNotMatch(greeting(guarded, facts), /secret-of-the-clients/);
});
