/**
 * Which test files may share a process, by what they import: pure ones, which reach no process, no socket and no native
 * database, and those that start nodes or programs. Both leave the process as they found it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** `nodes`: starts nodes, here or as processes, or other programs. */
export type Sharing = 'pure' | 'nodes';

const NOT_PURE: ReadonlySet<string> = new Set([
  'lmdb',
  'node:child_process',
  'node:dgram',
  'node:http',
  'node:https',
  'node:net',
  'node:tls',
  'piscina',
  'uws-glibc236',
  'uws-glibc238',
]);

/** In the test file itself: what would reach into the tests of other files. */
const TOUCHES_PROCESS =
  /\bprocess\.(env\[[^\]]*\]\s*=[^=]|on\(|once\(|exit|chdir|umask|stdout\.write\s*=)|\bmock\.|\bregister\(|^(before|after)Each\(/m;
/** In the test file and the modules of its folder: figures of this process, and calls that would block nodes in it. */
const NEEDS_PROCESS = /\bprocess\.(memoryUsage|resourceUsage)|\b(spawn|exec|execFile)Sync\b/;
/** In any module that a file reaches: hooks of the loader, which hold for the process, and not for what it has loaded. */
const HOOKS_LOADER = /\bimport\s*\{[^}]*\bregister\b[^}]*\}\s*from\s*['"]node:module['"]/;
/** Servers, clusters and clients of the tests. What they can do is judged by what a file asks of them. */
const SUPPORT = /\/support\/[^/]+\.js$/;
const STARTS_NODES = /\/support\/instance\.js$/;
const IMPORTS = /\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g;

/** The imports of a compiled file. */
interface Imports {
  /** Absolute paths. */
  readonly files: readonly string[];
  readonly isPure: boolean;
  readonly hooksLoader: boolean;
}

export class SharedFiles {
  readonly #imports = new Map<string, Imports>();

  /** Undefined: the file needs a process of its own. */
  sharingOf(path: string): Sharing | undefined {
    if (TOUCHES_PROCESS.test(readFileSync(path, 'utf8'))) return undefined;
    const reached = this.#reached(path).map((file) => this.#importsOf(file));
    if (reached.some(({ hooksLoader }) => hooksLoader)) return undefined;
    if (reached.every(({ isPure }) => isPure)) return 'pure';
    const own = this.#reached(path, (file) => dirname(file) === dirname(path) && !SUPPORT.test(file));
    return own.some((file) => isCode(file) && NEEDS_PROCESS.test(readFileSync(file, 'utf8'))) ? undefined : 'nodes';
  }

  /** Whether the file can start nodes. */
  hasNodes(path: string): boolean {
    return this.#reached(path).some((file) => STARTS_NODES.test(file));
  }

  /** The file and what it imports, from file to file. */
  #reached(path: string, isWanted = (_file: string): boolean => true): string[] {
    const seen = new Set<string>([path]);
    // Grows while it is walked.
    for (const file of seen) for (const next of this.#importsOf(file).files) if (isWanted(next)) seen.add(next);
    return [...seen];
  }

  #importsOf(path: string): Imports {
    const known = this.#imports.get(path);
    if (known !== undefined) return known;
    const code = isCode(path) ? readFileSync(path, 'utf8') : '';
    const names = [...code.matchAll(IMPORTS)].map(([, name = '']) => name);
    const files = names.filter((name) => name.startsWith('.')).map((name) => resolve(dirname(path), name));
    const found = { files, isPure: !names.some((name) => NOT_PURE.has(name)), hooksLoader: HOOKS_LOADER.test(code) };
    this.#imports.set(path, found);
    return found;
  }
}

/** A string of a test may look like an import of a file that is not there. */
function isCode(path: string): boolean {
  return /\.m?js$/.test(path) && existsSync(path);
}
