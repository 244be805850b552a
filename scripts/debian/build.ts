/**
 * `npm run deb -- [--out DIR]`: a Debian package of this checkout. It holds the npm package and all that
 * this needs, with the Node that runs this and the native halves for it, so that neither a registry nor a
 * compiler takes part in its installation: Debian 12 has an older Node.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { parseArgs } from 'node:util';
import { VERSION } from '../../src/config/version.ts';

/** This file is dist/scripts/debian/build.js. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const SOURCES = join(ROOT, 'scripts', 'debian');
/** Where the unit expects a checkout, and where the package has it. */
const UNIT_HOME = '/opt/millrace';
const HOME = '/usr/lib/millrace';
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const NODE = join(HOME, 'bin/node');
/** A whole Node has 90 MB; Debian's own is a small program and a dozen libraries. */
const NODE_BYTES_MIN = 32 * 1024 * 1024;
/** Finds the program from its own place, so that it also runs below another root. */
const START = `#!/bin/sh
home=$(dirname "$(dirname "$(readlink -f "$0")")")/lib/millrace
exec "$home/bin/node" "$home/dist/@FILE@" "$@"
`;
const KIB = 1024;
/** Plain JavaScript outside the compiled tree: it has to run on a Node that could not load the rest. */
const support: { readonly glibcFor: (node: string) => string } = await import(
  pathToFileURL(join(ROOT, 'scripts/node-support.mjs')).href
);

interface Installed {
  readonly dev?: boolean;
}

export interface BuildOptions {
  /** The level of zstd; undefined: dpkg's own, its highest but three. */
  readonly level?: number;
}

/** The path of the package. Throws with one sentence when the tools are missing or fail. */
export function buildPackage(out: string, { level }: BuildOptions = {}): string {
  const architecture = ARCHITECTURES[process.arch];
  if (process.platform !== 'linux' || architecture === undefined)
    throw new Error(`a Debian package is made on Linux (x64, arm64), not on ${process.platform} ${process.arch}`);
  if (statSync(process.execPath).size < NODE_BYTES_MIN)
    throw new Error(`${process.execPath} is not the whole Node: run this by one of nodejs.org or NodeSource`);
  const stage = mkdtempSync(join(tmpdir(), 'millrace-deb-'));
  try {
    const root = join(stage, 'root');
    addProgram(root, stage);
    addSystemFiles(root);
    addControl(root, architecture);
    mkdirSync(out, { recursive: true });
    const path = join(out, `millrace_${VERSION}_${architecture}.deb`);
    // zstd: Debian 12 and Ubuntu 22.04 read it, and it takes seconds where xz takes a minute.
    const compression = level === undefined ? ['-Zzstd'] : ['-Zzstd', `-z${level}`];
    run('dpkg-deb', ['--root-owner-group', ...compression, '--build', root, path]);
    return path;
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Adds the files that `npm pack` packs, and beside them the packages of the lockfile that are not for development. */
function addProgram(root: string, stage: string): void {
  const home = join(root, HOME);
  mkdirSync(home, { recursive: true });
  const packed = run('npm', ['pack', '--silent', '--pack-destination', stage]).trim().split('\n').at(-1) ?? '';
  run('tar', ['-xzf', join(stage, basename(packed)), '-C', home, '--strip-components=1', '--no-same-owner']);
  for (const path of productionPackages()) {
    const from = join(ROOT, path);
    cpSync(from, join(home, path), {
      recursive: true,
      // Packages inside have entries of their own, and Debian has one C library.
      filter: (source) =>
        source === from || (basename(source) !== 'node_modules' && !/\bmusl\.node$/.test(source) && isRun(source)),
    });
  }
  mkdirSync(dirname(join(root, NODE)), { recursive: true });
  copyFileSync(process.execPath, join(root, NODE));
  for (const [name, file] of [
    ['millrace', 'main.js'],
    ['millracectl', 'ctl.js'],
  ] as const) {
    write(join(root, 'usr/bin', name), START.replace('@FILE@', file), 0o755);
  }
}

/**
 * Types and source maps are for who builds, and OpenTelemetry's packages hold each file
 * three times, of which Node takes build/src.
 */
function isRun(path: string): boolean {
  return !/\.(d\.[cm]?ts|map)$|\/dist-types$|\/@opentelemetry\/[^/]+\/build\/(esm|esnext)$/.test(path);
}

/** Paths such as `node_modules/a/node_modules/b`, as npm installed them here. */
function productionPackages(): string[] {
  const text = readFileSync(join(ROOT, 'node_modules', '.package-lock.json'), 'utf8');
  const { packages } = JSON.parse(text) as { readonly packages: Readonly<Record<string, Installed>> };
  return Object.entries(packages)
    .filter(([, { dev }]) => dev !== true)
    .map(([path]) => path);
}

function addSystemFiles(root: string): void {
  const unit = readFileSync(join(ROOT, 'scripts', 'millrace.service'), 'utf8')
    .replace(/^# A template: .*$/m, '# Changes belong in a drop-in: systemctl edit millrace.')
    .replace(/^# The checkout, .*\n/m, '')
    .replaceAll(UNIT_HOME, HOME)
    .replace('/usr/bin/node', NODE)
    // The package knows nothing of this host's CPUs.
    .replace(/^CPUAffinity=/m, '# CPUAffinity=');
  const doc = 'usr/share/doc/millrace';
  const files: readonly (readonly [string, string | Uint8Array])[] = [
    ['usr/lib/systemd/system/millrace.service', unit],
    ['usr/lib/sysusers.d/millrace.conf', source('sysusers.conf')],
    ['usr/lib/tmpfiles.d/millrace.conf', source('tmpfiles.conf')],
    ['etc/millrace/millrace.toml', source('millrace.toml')],
    ['etc/default/millrace', source('default')],
    [`${doc}/copyright`, readFileSync(join(ROOT, 'LICENSE'), 'utf8') + nodeLicense()],
    [`${doc}/changelog.gz`, gzipSync(readFileSync(join(ROOT, 'CHANGELOG.md')), { level: 9 })],
    [`${doc}/configuration.md`, readFileSync(join(ROOT, 'src/config/README.md'), 'utf8')],
    [`${doc}/operating.md`, readFileSync(join(ROOT, 'src/operator/README.md'), 'utf8')],
  ];
  for (const [path, text] of files) write(join(root, path), text, 0o644);
}

/** It lies beside the program in archives of nodejs.org, and with the documents in packages. */
function nodeLicense(): string {
  const places = ['../LICENSE', '../share/doc/nodejs/LICENSE'].map((path) => join(dirname(process.execPath), path));
  const place = places.find((path) => existsSync(path));
  if (place === undefined) throw new Error(`the license of Node is in none of ${places.join(' and ')}`);
  return `\n${NODE} is Node.js ${process.versions.node}:\n\n${readFileSync(place, 'utf8')}`;
}

function addControl(root: string, architecture: string): void {
  const kibibytes = Math.ceil(tidy(root) / KIB);
  write(join(root, 'DEBIAN/control'), controlOf({ architecture, kibibytes, node: process.versions.node }), 0o644);
  write(join(root, 'DEBIAN/conffiles'), source('conffiles'), 0o644);
  for (const script of ['postinst', 'prerm', 'postrm']) write(join(root, 'DEBIAN', script), source(script), 0o755);
}

interface Contents {
  readonly architecture: string;
  readonly kibibytes: number;
  /** The version of the Node in it, which says how new the C library has to be. */
  readonly node: string;
}

/** @internal */
export function controlOf({ architecture, kibibytes, node }: Contents): string {
  const values: Readonly<Record<string, string>> = {
    '@VERSION@': VERSION,
    '@ARCHITECTURE@': architecture,
    '@KIBIBYTES@': String(kibibytes),
    '@GLIBC@': support.glibcFor(node),
  };
  return source('control').replaceAll(/@[A-Z_]+@/g, (name) => values[name] ?? name);
}

/** Gives every file the modes that a package has, whatever the umask was; returns their size in bytes. */
function tidy(folder: string): number {
  chmodSync(folder, 0o755);
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += tidy(path);
    else if (entry.isFile()) {
      chmodSync(path, isScript(path) || path.endsWith(NODE) ? 0o755 : 0o644);
      bytes += statSync(path).size;
    }
  }
  return bytes;
}

/** Packages of npm mark much else as executable. */
function isScript(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(2);
    return readSync(file, start) === 2 && start.toString('latin1') === '#!';
  } finally {
    closeSync(file);
  }
}

function source(name: string): string {
  return readFileSync(join(SOURCES, name), 'utf8');
}

function write(path: string, text: string | Uint8Array, mode: number): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, mode);
}

function run(command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args[0]} failed: ${error?.message ?? (stderr.trim() || `exit status ${status}`)}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { values } = parseArgs({ options: { out: { type: 'string', default: '.' } } });
  try {
    process.stdout.write(`${buildPackage(resolve(values.out))}\n`);
  } catch (error) {
    process.stderr.write(`deb: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
