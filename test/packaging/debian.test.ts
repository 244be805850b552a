// The Debian package: built here, installed into an empty root by dpkg itself with its maintainer scripts,
// and started from there. systemd's own tools read the unit.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, test } from 'node:test';
import { buildPackage, controlOf } from '../../scripts/debian/build.ts';
import { loadConfig } from '../../src/config/load.ts';
import { VERSION } from '../../src/config/version.ts';
import { startReady, stopCleanly } from '../support/package.ts';
import { freePorts } from '../support/ports.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

/** systemd's measure, from 0 (closed) to 100; a unit without any of these settings has 96. */
const EXPOSURE_MAX = 20;
const UNIT = 'usr/lib/systemd/system/millrace.service';

const has = (command: string): boolean => spawnSync(command, ['--version']).error === undefined;
const skip = has('dpkg-deb') && has('dpkg') ? false : 'needs dpkg, which Debian and Ubuntu have';

/**
 * Calls that the filter refuses and that are only tried: by V8 for protection keys, by libuv for a faster way to files.
 */
const TRIED = ['pkey_alloc', 'pkey_mprotect', 'pkey_free', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'];

/** For strace: as the filter would answer them. */
function refusedCalls(): string {
  return `inject=${TRIED.map((call) => `?${call}`).join(',')}:error=EPERM`;
}

/** Everything else that a server called from its start to its end is in the sets that the unit allows. */
async function checkCalls(path: string, unit: string): Promise<void> {
  const read = (): string => (existsSync(path) ? readFileSync(path, 'utf8') : '');
  await until('strace has written its table', () => / total$/m.test(read()));
  const rows = [...read().matchAll(/^ *[\d.]+ .* (\w+)$/gm)].map((match) => match[1] ?? '');
  const allowed = new Set([...filterOf(unit).flatMap(membersOf), ...membersOf('@default'), ...TRIED, 'total']);
  assert(rows.length > 30, read());
  assert.deepEqual(
    rows.filter((call) => !allowed.has(call)),
    [],
  );
}

function filterOf(unit: string): string[] {
  const filter = /^SystemCallFilter=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? [];
  assert(filter.length > 0);
  return filter;
}

/** The calls of a set such as `@system-service`, those of the sets in it included. */
function membersOf(name: string): string[] {
  if (!name.startsWith('@')) return [name];
  const lines = succeed('systemd-analyze', ['syscall-filter', name]).split('\n').slice(1);
  const members = lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
  return members.flatMap(membersOf);
}

function succeed(command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  assert.equal(status, 0, `${command} ${args.join(' ')}: ${error?.message ?? ''}${stdout}${stderr}`);
  return stdout;
}

const folder = temporaryFolder('debian');
after(() => removeFolder(folder));
const root = join(folder, 'root');
const inRoot = (path: string): string => join(root, path);

test('the package is built, and installs its files, its user and its folders', { skip }, () => {
  // A release is compressed as far as it goes.
  const path = buildPackage(folder, { level: 1 });
  const fields = succeed('dpkg-deb', ['--field', path]);
  assert.match(fields, new RegExp(`^Version: ${VERSION.replaceAll('.', '\\.')}$`, 'm'));
  assert.match(fields, /^Depends: libc6 /m);
  assert.doesNotMatch(fields, /nodejs/, 'Debian 12 has none that is new enough');
  const listed = succeed('dpkg-deb', ['--contents', path]).split('\n');
  assert(!listed.some((line) => /\/(typescript|vitest|oxlint)\//.test(line)), 'nothing for development');
  for (const line of listed.filter((one) => one !== '')) assert.match(line, /^\S+ root\/root /);
  assert(listed.some((line) => line.endsWith('.glibc.node')) && !listed.some((line) => line.endsWith('musl.node')));
  const executable = listed.filter((line) => /^-\S*x/.test(line));
  assert(executable.some((line) => line.endsWith('/dist/main.js')));
  for (const line of executable) assert.doesNotMatch(line, /\.(json|md|node)$/);
  assert(listed.some((line) => line.endsWith('/usr/share/doc/millrace/changelog.gz')));
  if (isInstalled) install(path);
  else succeed('dpkg-deb', ['--extract', path, root]);
  for (const conffile of ['etc/millrace/millrace.toml', 'etc/default/millrace']) assert(existsSync(inRoot(conffile)));
  assert.equal(succeed(inRoot('usr/lib/millrace/bin/node'), ['--version']), `${process.version}\n`);
  assert.match(
    readFileSync(inRoot('usr/share/doc/millrace/copyright'), 'utf8'),
    /bin\/node is Node\.js .*Permission is hereby granted/s,
  );
});

test('the package asks for the C library that the Node in it needs', () => {
  for (const [node, glibc] of [
    ['20.20.0', '2.36'],
    ['22.21.0', '2.36'],
    ['24.11.0', '2.38'],
  ] as const) {
    const control = controlOf({ architecture: 'amd64', kibibytes: 1, node });
    assert(control.includes(`\nDepends: libc6 (>= ${glibc}), `), control);
  }
});

const isInstalled = skip === false && process.getuid?.() === 0 && has('systemd-sysusers');

/** As root: dpkg runs the scripts of the package with DPKG_ROOT, outside of the root, which has no programs. */
function dpkg(...args: readonly string[]): string {
  const forced = ['script-chrootless', 'depends', 'unsafe-io'].map((what) => `--force-${what}`);
  return succeed('dpkg', [...forced, '--log=/dev/null', `--root=${root}`, ...args]);
}

function install(path: string): void {
  for (const name of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'etc']) mkdirSync(inRoot(name), { recursive: true });
  for (const name of ['status', 'available']) writeFileSync(inRoot(`var/lib/dpkg/${name}`), '');
  dpkg('--install', path);
  assert.match(succeed('dpkg-query', [`--admindir=${inRoot('var/lib/dpkg')}`, '--show', 'millrace']), /^millrace\t/);
  const gid = Number(/^millrace:[^:]*:(\d+):/m.exec(readFileSync(inRoot('etc/group'), 'utf8'))?.[1]);
  const secrets = statSync(inRoot('etc/millrace'));
  assert.deepEqual([secrets.mode & 0o777, secrets.uid, secrets.gid], [0o750, 0, gid]);
}

test('the unit starts what the package holds, closed as far as systemd can measure', { skip }, async (t) => {
  const unit = readFileSync(inRoot(UNIT), 'utf8');
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? [];
  const home = /^WorkingDirectory=(.*)$/m.exec(unit)?.[1] ?? '';
  assert.deepEqual(command.slice(0, 2), ['/usr/lib/millrace/bin/node', 'dist/main.js']);
  assert.doesNotMatch(unit, /opt\/millrace|^CPUAffinity/m);
  const config = command.slice(2).map((word) => word.replace(/^\/etc\//, `${inRoot('etc')}/`));
  assert.equal(loadConfig(config, {}).storage.dataDir, '/var/lib/millrace');
  const port = await freePorts(2);
  const env = {
    MILLRACE_STORAGE__DATA_DIR: join(folder, 'data'),
    MILLRACE_SERVER__LISTEN: `127.0.0.1:${port}`,
    MILLRACE_SERVER__ADMIN_LISTEN: `127.0.0.1:${port + 1}`,
    MILLRACE_RUNTIME__CORE_COUNT: '1',
    MILLRACE_RAFT__GROUP_COUNT: '2',
    // Nothing takes them there, but what makes them has to be in the package.
    MILLRACE_TRACING__OTLP_ENDPOINT: 'http://127.0.0.1:9/v1/traces',
  };
  const trace = has('strace') && has('systemd-analyze') ? join(folder, 'calls') : undefined;
  const traced =
    trace === undefined ? [] : ['strace', '--seccomp-bpf', '-D', '-f', '-qq', '-c', '-o', trace, '-e', refusedCalls()];
  const server = await startReady(
    [...traced, inRoot('usr/lib/millrace/bin/node'), 'dist/main.js', ...config],
    env,
    port + 1,
    inRoot(home),
  );
  await stopCleanly(server);
  if (trace === undefined)
    t.diagnostic('needs strace and systemd-analyze to see that SystemCallFilter lets the server work');
  else await checkCalls(trace, unit);
  assert.equal(succeed(inRoot('usr/bin/millracectl'), ['--version']), `${VERSION}\n`);
  if (!has('systemd-analyze')) return t.diagnostic('systemd-analyze is not installed: the unit was not measured');
  const local = join(folder, 'millrace.service');
  writeFileSync(local, unit.replaceAll(home, inRoot(home)));
  succeed('systemd-analyze', ['verify', local]);
  succeed('systemd-analyze', ['security', '--offline=true', `--threshold=${EXPOSURE_MAX}`, local]);
});

test(
  "an operator's files and everything acknowledged survive the package",
  { skip: skip === false && !isInstalled },
  () => {
    mkdirSync(inRoot('var/lib/millrace'), { recursive: true });
    writeFileSync(inRoot('etc/default/millrace'), '# mine\n');
    dpkg('--remove', 'millrace');
    assert(!existsSync(inRoot('usr/bin/millrace')) && existsSync(inRoot('var/lib/millrace')));
    assert.equal(readFileSync(inRoot('etc/default/millrace'), 'utf8'), '# mine\n');
    assert.match(dpkg('--purge', 'millrace'), /the data stays in \/var\/lib\/millrace/);
    assert(!existsSync(inRoot('etc/default/millrace')) && existsSync(inRoot('var/lib/millrace')));
  },
);
