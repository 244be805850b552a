/**
 * Completes package-lock.json with the native packages of other platforms: `npm run lock`, after any change of
 * dependencies.
 *
 * npm leaves an optional package out of the lockfile when the registry at hand cannot show it, which happens behind
 * mirrors that hold one platform only. `npm ci` then refuses the whole lockfile as "not in sync", here and on every
 * other host. The entry that npm would have written follows from the package that asks: name, exact version and, by the
 * naming of native packages, the platform. Only the integrity hash cannot be known; npm then trusts the registry.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

export interface LockEntry {
  readonly version?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly engines?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The `packages` of a lockfile by path, such as `node_modules/a/node_modules/b`. */
export type LockPackages = Record<string, LockEntry>;

const OS = ['darwin', 'linux', 'win32', 'android', 'freebsd', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'aix'];
const CPU = ['x64', 'arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'loong64', 'mips64el'];
const LIBC: Readonly<Record<string, string>> = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl', musleabihf: 'musl' };

/** Adds what is missing to `packages`; returns the paths of the new entries. */
export function completeLock(packages: LockPackages): string[] {
  const added: string[] = [];
  for (const [parent, entry] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const path = missingPath(packages, parent, name, version);
      if (path === undefined) continue;
      const platform = platformOf(name);
      // Without a platform the entry would be installed everywhere: such a package has to be in the registry.
      if (platform === undefined)
        throw new Error(`${parent} asks for ${name}@${version}, which is no package of one platform`);
      packages[path] = { version, ...(entry.dev === true ? { dev: true } : {}), optional: true, ...platform };
      added.push(path);
    }
  }
  return added;
}

/** Where npm would place the package; undefined when one that fits is in reach already. */
function missingPath(packages: LockPackages, parent: string, name: string, version: string): string | undefined {
  const hoisted = `node_modules/${name}`;
  const nested = `${parent}/node_modules/${name}`;
  if (packages[nested] !== undefined) return undefined;
  const found = packages[hoisted];
  if (found === undefined) return hoisted;
  // Not an exact version: npm resolved the range, and what it found is in the lockfile.
  return found.version === version || !/^\d+\.\d+\.\d+/.test(version) ? undefined : nested;
}

function platformOf(name: string): LockEntry | undefined {
  const parts = name.split(/[/-]/);
  const os = OS.find((one) => parts.includes(one));
  const cpu = CPU.find((one) => parts.includes(one));
  if (os === undefined || cpu === undefined) return undefined;
  const libc = parts.map((part) => LIBC[part]).find((one) => one !== undefined);
  return { os: [os], cpu: [cpu], ...(libc !== undefined && os === 'linux' ? { libc: [libc] } : {}) };
}

function main(): void {
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: LockPackages };
  const added = completeLock(lock.packages);
  const [root, ...rest] = Object.entries(lock.packages);
  rest.sort(([a], [b]) => a.localeCompare(b, 'en'));
  lock.packages = Object.fromEntries([...(root === undefined ? [] : [root]), ...rest]);
  writeFileSync('package-lock.json', `${JSON.stringify(lock, undefined, 2)}\n`);
  process.stdout.write(`package-lock.json: ${added.length} packages of other platforms added\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) main();
