/**
 * Which test files may share a process: those that reach, over all that they import, no process, no socket and no
 * native database, and that leave the process as they found it.
 */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

const OWN_PROCESS: ReadonlySet<string> = new Set([
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
const IMPORTS = /\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g;

export class PureFiles {
  readonly #imports = new Map<string, readonly string[]>();

  has(path: string): boolean {
    if (TOUCHES_PROCESS.test(readFileSync(path, 'utf8'))) return false;
    const seen = new Set<string>([path]);
    // Grows while it is walked.
    for (const file of seen) {
      for (const name of this.#importsOf(file)) {
        if (OWN_PROCESS.has(name)) return false;
        if (name.startsWith('.')) seen.add(resolve(dirname(file), name));
      }
    }
    return true;
  }

  #importsOf(path: string): readonly string[] {
    let found = this.#imports.get(path);
    if (found === undefined) {
      found = isCode(path) ? [...readFileSync(path, 'utf8').matchAll(IMPORTS)].map(([, name = '']) => name) : [];
      this.#imports.set(path, found);
    }
    return found;
  }
}

function isCode(path: string): boolean {
  return /\.m?js$/.test(path);
}
