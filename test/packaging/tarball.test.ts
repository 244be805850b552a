// The package that `npm pack` makes: it holds what runs and nothing else, imports nothing that it does not name, and
// serves from an empty folder, also as a user who cannot write where it is installed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, posix } from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { VERSION } from '../../src/config/version.ts';
import { giveTo, ordinaryUser } from '../support/ctl.ts';
import { manifestOf, pack, startReady, stopCleanly, unpack } from '../support/package.ts';
import { freePorts } from '../support/ports.ts';
import { RawClient } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const folder = temporaryFolder('tarball');
chmodSync(folder, 0o755);
after(() => removeFolder(folder));
const packed = pack(folder);
const home = unpack(packed, folder);
const programs = packed.files.filter((path) => /\.[cm]?js$/.test(path));

test('what runs is in it, tests and benches are not', () => {
  for (const path of [
    ...['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md'],
    ...['dist/main.js', 'dist/ctl.js', 'scripts/node-support.mjs'],
    ...[
      'main.cjs',
      'ctl.cjs',
      'shard.cjs',
      'checkpoint.cjs',
      'node.js',
      'export.js',
      'json.js',
      'pool.js',
      'salvage.js',
    ]
      .concat('verify.js')
      .flatMap((name) => [`dist/bundle/${name}`, `dist/bundle/${name}.map`]),
    ...['load.cjs', 'start-main.cjs', 'start-ctl.cjs', 'start-shard.cjs'].map((name) => `dist/bundle/${name}`),
    'dist/bundle/node.d.ts',
    ...['page.html', 'openapi-admin.json', 'openapi-client.json'].map((name) => `dist/bundle/${name}`),
  ]) {
    assert(packed.files.includes(path), path);
  }
  for (const name of ['main', 'ctl', 'shard']) {
    const cache = new RegExp(`^dist/bundle/${name}-${process.version}-${process.arch}-[0-9a-f]+\\.cache$`);
    assert(
      packed.files.some((path) => cache.test(path)),
      `what V8 compiled of ${name}`,
    );
  }
  const strange = packed.files.filter(
    (path) =>
      (/\.(ts|test\.js)$/.test(path) && path !== 'dist/bundle/node.d.ts') ||
      !/^(dist\/bundle\/[^/]+$|dist\/(main|ctl)\.js$|scripts\/node-support\.mjs$|[^/]+$)/.test(path),
  );
  assert.deepEqual(strange, []);
});

test('whatever is imported is in it or named by it', () => {
  const { dependencies, ...manifest } = manifestOf(home);
  // Those of a dependency do not count where it is installed, so none may be needed; packages of the tests may have some.
  assert.deepEqual(Object.keys(manifest.overrides ?? {}), ['assistant-stream', 'openapi-typescript']);
  for (const [name, version] of Object.entries(dependencies)) assert.match(version, /\d+\.\d+\.\d+$/, name);
  const known = new Set(Object.keys(dependencies));
  const missing = programs.flatMap((path) =>
    importsOf(readFileSync(join(home, path), 'utf8'))
      .filter((name) =>
        name.startsWith('.')
          ? !packed.files.includes(posix.join(posix.dirname(path), name))
          : !isBuiltin(name) && !known.has(packageOf(name)),
      )
      .map((name) => `${path}: ${name}`),
  );
  assert.deepEqual(missing, []);
  assert(programs.length >= 10 && packed.files.length < 100, `${packed.files.length} files`);
  assert.deepEqual(importsOf(`import x from './a.js'; await import("b/c"); new URL('../w.js', import.meta.url)`), [
    './a.js',
    'b/c',
    '../w.js',
  ]);
});

/** Static and dynamic ones, and the files of threads. */
function importsOf(code: string): string[] {
  const found = code.matchAll(/(?:\bfrom|\bimport|\b(?:import|require)\(|\bnew URL\()\s*(['"])([^'"\s]+)\1/g);
  return [...found].map((match) => match[2] ?? '').filter((name) => !name.includes('$') && !name.endsWith('/'));
}

function packageOf(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

test('it serves from an empty folder, configured by the environment alone', async (t) => {
  const user = ordinaryUser();
  if (typeof user === 'string') return t.skip(user);
  const own = join(folder, 'own');
  mkdirSync(own);
  giveTo(user, own);
  const asUser =
    user.uid === undefined ? [] : ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'];
  const command = (name: string): string[] => [...asUser, join(folder, 'node_modules', '.bin', name)];
  for (const name of ['millrace', 'millracectl']) {
    const [file = '', ...args] = command(name);
    const { stdout, stderr } = spawnSync(file, [...args, '--version'], { encoding: 'utf8', cwd: own });
    assert.equal(stdout, `${VERSION}\n`, stderr);
  }
  const port = await freePorts(2);
  const env = {
    MILLRACE_SERVER__LISTEN: `127.0.0.1:${port}`,
    MILLRACE_SERVER__ADMIN_LISTEN: `127.0.0.1:${port + 1}`,
    MILLRACE_RUNTIME__CORE_COUNT: '1',
    MILLRACE_RAFT__GROUP_COUNT: '2',
    // Nothing takes them there, but what makes them has to be in the package.
    MILLRACE_TRACING__OTLP_ENDPOINT: 'http://127.0.0.1:9/v1/traces',
  };
  const server = await startReady(command('millrace'), env, port + 1, own);
  const client = await RawClient.connect(port);
  const created = await client.request('PUT', '/package/log', { 'Content-Type': 'text/plain' }, 'hello');
  assert.equal(created.status, 201, created.body.toString());
  assert.equal((await client.request('GET', '/package/log?offset=-1')).body.toString(), 'hello');
  client.socket.destroy();
  await stopCleanly(server);
  const [file = '', ...args] = command('millrace');
  const wrong = spawnSync(file, args, {
    encoding: 'utf8',
    cwd: own,
    env: { ...process.env, MILLRACE_RAFT__NODE: '2' },
  });
  assert.equal(wrong.status, 2, wrong.stderr);
  assert.match(wrong.stderr, /^millrace: MILLRACE_RAFT__NODE: unknown key; did you mean MILLRACE_RAFT__NODE_ID/);
});

test('npx that is told to end takes its server along', async () => {
  const port = await freePorts(2);
  const own = join(folder, 'with-npx');
  mkdirSync(own);
  const env = {
    MILLRACE_SERVER__LISTEN: `127.0.0.1:${port}`,
    MILLRACE_SERVER__ADMIN_LISTEN: `127.0.0.1:${port + 1}`,
    MILLRACE_RUNTIME__CORE_COUNT: '1',
    MILLRACE_RAFT__GROUP_COUNT: '2',
  };
  const npx = ['npx', '--no-install', 'millrace', '--data', join(own, 'data')];
  // Twice: the first has left ports and directory to the second.
  for (let run = 0; run < 2; run++) {
    const started = await startReady(npx, env, port + 1, folder);
    started.child.kill('SIGTERM');
    await within(started.exited, PATIENCE_MS, 'the end of npx');
    await until('the server says why it ends', () => started.output().includes('npx, which started this server, has'));
    await until('the server has ended too', () =>
      RawClient.connect(port).then(
        (client) => {
          client.destroy();
          return false;
        },
        () => true,
      ),
    );
  }
});
