/**
 * The first thing that runs on a fresh clone, so it needs nothing but Node. Installs from the lockfile when
 * node_modules does not hold what it names, builds when dist/ is older than the sources, then goes on with:
 *
 *   run FILE [ARGS]   imports dist/FILE in this very process: signals, exit code and terminal are the program's own
 *   build             nothing more
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { thisHost, unsupported } from './node-support.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
const BUILD_STAMP = join(DIST, '.build');
const LOCK = join(ROOT, '.bootstrap.lock');
const SOURCE_FOLDERS = ['src', 'workers', 'bench', 'test', 'scripts'];
/** The console's page is compiled for browsers, by a configuration of its own, and bundled. */
const PAGE = join('src', 'console', 'page');
const PAGE_SOURCES = /\.(tsx|css|html|json)$/;
/** Entry points whose names scripts rely on. */
const SHIMS = {
  // A reload that comes while the modules load would end the process: this is before everything else.
  'main.js': { target: './bundle/start-main.cjs', before: "process.on('SIGHUP', () => undefined);\n" },
  'ctl.js': { target: './bundle/start-ctl.cjs', before: '' },
};
/** That of a configuration which cannot work: starting again would not help. */
const EXIT_UNSUPPORTED = 2;
/** A fresh install takes seconds; one that takes this long has died with its process id taken over by another. */
const LOCK_WAIT_MS = 300_000;
const LOCK_POLL_MS = 200;

async function main([command, ...args]) {
  const reason = unsupported(thisHost());
  if (reason !== undefined) fail(reason, EXIT_UNSUPPORTED);
  if (!isInstalled() || !isBuilt()) underLock(prepare);
  if (command === 'run') {
    const file = join(DIST, args[0]);
    if (!fs.existsSync(file)) fail(`this version has no dist/${args[0]}`);
    process.argv = [process.argv[0], file, ...args.slice(1)];
    await import(pathToFileURL(file).href);
  } else if (command !== 'build') {
    fail(`bootstrap: unknown command ${command}`);
  }
}

function prepare() {
  if (!isInstalled()) {
    note('installing packages from package-lock.json');
    npm('ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund');
    if (!isInstalled()) fail('npm ci ended well, but node_modules does not hold what package-lock.json names');
  }
  if (!isBuilt()) build();
}

/**
 * True when node_modules holds every package of the lockfile that is not optional, and the web server for this Node.
 */
function isInstalled() {
  const wanted = readJson(join(ROOT, 'package-lock.json'));
  const present = readJson(join(ROOT, 'node_modules', '.package-lock.json'));
  if (wanted === undefined) fail('package-lock.json is missing or not readable');
  if (present === undefined) return false;
  for (const [path, { version, optional, devOptional }] of Object.entries(wanted.packages)) {
    if (path !== '' && !optional && !devOptional && present.packages[path]?.version !== version) return false;
  }
  // The one package that differs between Node versions: npm installed the one for the Node that it ran on.
  const native = `@uwsjs/${process.platform}-${process.arch}-${process.versions.node.split('.')[0]}`;
  return !(`node_modules/${native}` in wanted.packages) || `node_modules/${native}` in present.packages;
}

/** dist/ belongs to the sources when it was built from the same bytes: times mean nothing after a checkout. */
function isBuilt() {
  try {
    return fs.readFileSync(BUILD_STAMP, 'utf8') === sourceHash(sourceFiles());
  } catch {
    return false;
  }
}

function build() {
  const files = sourceFiles();
  const hash = sourceHash(files);
  fs.rmSync(BUILD_STAMP, { force: true });
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const compiled = runNode(tsc, '-p', 'tsconfig.json');
  removeOrphans(new Set(files));
  for (const [name, { target, before }] of Object.entries(SHIMS)) {
    // Executable, because package.json names one of them as a command.
    fs.writeFileSync(join(DIST, name), shim(target, before), { mode: 0o755 });
    fs.chmodSync(join(DIST, name), 0o755);
  }
  if (compiled !== undefined) fail(`the build failed (tsc: ${compiled})`);
  const described = runNode(join(DIST, 'scripts', 'openapi', 'build.js'));
  if (described !== undefined) fail(`the build of the OpenAPI documents failed (${described})`);
  const checked = runNode(tsc, '-p', PAGE);
  if (checked !== undefined) fail(`the build of the console's page failed (tsc: ${checked})`);
  const bundled = runNode(join('scripts', 'console-bundle.mjs'));
  if (bundled !== undefined) fail(`the build of the console's page failed (${bundled})`);
  const joined = runNode(join('scripts', 'bundle.mjs'));
  if (joined !== undefined) fail(`the build of the bundle failed (${joined})`);
  const compiledAhead = runNode(join('scripts', 'code-cache.mjs'));
  if (compiledAhead !== undefined) fail(`the build of the code caches failed (${compiledAhead})`);
  fs.writeFileSync(BUILD_STAMP, hash);
}

/** Undefined, or how it failed; why, it has said itself. */
function runNode(...args) {
  const { status, signal } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] });
  return status === 0 ? undefined : (signal ?? `exit status ${status}`);
}

/** Asks whether this Node will do before it loads anything else. */
function shim(target, before) {
  return `#!/usr/bin/env node
import { createRequire } from 'node:module';
import { thisHost, unsupported } from '../scripts/node-support.mjs';

${before}const reason = unsupported(thisHost());
if (reason === undefined) {
  createRequire(import.meta.url)('${target}');
} else {
  process.stderr.write(\`millrace: \${reason}\\n\`);
  process.exitCode = ${EXIT_UNSUPPORTED};
}
`;
}

/** The test of a deleted source must not run again. */
function removeOrphans(files) {
  for (const folder of SOURCE_FOLDERS) {
    for (const path of walk(join(DIST, folder))) {
      const source = relative(DIST, path).replace(/\.js(\.map)?$/, '.ts');
      if (!files.has(source)) fs.rmSync(path);
    }
  }
}

function sourceFiles() {
  return SOURCE_FOLDERS.flatMap((folder) => walk(join(ROOT, folder)))
    .map((path) => relative(ROOT, path))
    .filter((path) => path.endsWith('.ts') || (path.startsWith(PAGE) && PAGE_SOURCES.test(path)))
    .sort((a, b) => (a < b ? -1 : 1));
}

function sourceHash(files) {
  const hash = createHash('sha256');
  for (const path of [
    'tsconfig.json',
    'package-lock.json',
    'scripts/bootstrap.mjs',
    'scripts/bundle.mjs',
    'scripts/code-cache.mjs',
    'scripts/console-bundle.mjs',
    'scripts/load.cjs',
    'scripts/node-support.mjs',
    'scripts/write-code-cache.cjs',
    ...files,
  ]) {
    hash
      .update(`${path}\0`)
      .update(fs.readFileSync(join(ROOT, path)))
      .update('\0');
  }
  return hash.digest('hex');
}

function walk(folder) {
  if (!fs.existsSync(folder)) return [];
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return walk(path);
    return entry.isFile() ? [path] : [];
  });
}

/** Three nodes started at once on a fresh clone must not install three times over each other. */
function underLock(action) {
  const deadline = Date.now() + LOCK_WAIT_MS;
  while (!tryLock()) {
    if (Date.now() > deadline)
      fail(`${LOCK} is held by process ${readOwner()}; remove the file if that is not a build`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
  }
  const release = () => fs.rmSync(LOCK, { force: true });
  process.on('exit', release);
  action();
  release();
  process.off('exit', release);
}

function tryLock() {
  try {
    fs.writeFileSync(LOCK, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS'].includes(error.code))
      fail(
        `${ROOT} is not built, and this user cannot write there (${error.code}): run "npm ci && npm run build" in it as its owner, or use a copy of your own`,
      );
    if (error.code !== 'EEXIST') throw error;
  }
  const owner = readOwner();
  // Empty: created this instant, its owner is about to write. A permanent NaN would end at the deadline.
  if (Number.isInteger(owner) && owner > 0 && !isAlive(owner)) fs.rmSync(LOCK, { force: true });
  return false;
}

function readOwner() {
  try {
    return Number.parseInt(fs.readFileSync(LOCK, 'utf8'), 10);
  } catch {
    return Number.NaN;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function npm(...args) {
  // npm names itself to the scripts it runs; without it (node scripts/bootstrap.mjs by hand) there is one on the path.
  const cli = process.env.npm_execpath;
  const [file, first] = cli?.endsWith('.js') ? [process.execPath, [cli]] : ['npm', []];
  // npm's output is for the waiting user, not part of the program's output.
  const { status, error } = spawnSync(file, [...first, ...args], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  if (status !== 0) fail(`npm ${args[0]} failed (${error?.message ?? `exit status ${status}`})`);
}

function readJson(path) {
  try {
    return JSON.parse(fs.readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

function note(text) {
  process.stderr.write(`millrace: ${text}\n`);
}

function fail(text, exitCode = 1) {
  note(text);
  process.exit(exitCode);
}

await main(process.argv.slice(2));
