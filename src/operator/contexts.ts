/**
 * Contexts: clusters by name, with how each is reached, so that no command has to repeat it. They lie in
 * $XDG_CONFIG_HOME/millrace/contexts.json, readable by their owner only, and hold names of files, never tokens.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { caughtCode } from '../base/caught.ts';
import type { ContextFlags } from './flags.ts';
import { Failure, NotThere, reasonOf } from '../nodes/failure.ts';
import { membersOf } from '../nodes/http-client.ts';
import type { EnvironmentVariables } from '../config/environment.ts';
import { isObject } from '../nodes/report.ts';
import { replaceFile } from './whole-file.ts';

/** Flags that a context may hold. Those that name files are kept as absolute paths. */
export const CONTEXT_FLAGS = ['config', 'url', 'token-file', 'client-token-file', 'ca-file', 'cert-file'] as const;
const FOLDER_MODE = 0o700;

type Flags = ReadonlyMap<string, string>;

export class Contexts {
  readonly path: string;
  readonly #text: string;
  readonly #all: Map<string, Flags>;
  #current: string | undefined;

  private constructor(path: string, text: string, all: Map<string, Flags>, current: string | undefined) {
    this.path = path;
    this.#text = text;
    this.#all = all;
    this.#current = current;
  }

  static read(env: EnvironmentVariables): Contexts {
    const home = env['XDG_CONFIG_HOME']?.trim();
    // The rules of XDG: a relative path does not count.
    const base = home !== undefined && home.startsWith('/') ? home : join(homedir(), '.config');
    const path = join(base, 'millrace', 'contexts.json');
    let text: string;
    try {
      text = readFileSync(path, 'utf8');
    } catch (error) {
      const code = caughtCode(error);
      if (code === 'ENOENT' || code === 'ENOTDIR') return new Contexts(path, '', new Map(), undefined);
      throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
    }
    return Contexts.#parse(path, text);
  }

  static #parse(path: string, text: string): Contexts {
    const { current, contexts } = membersOf(text);
    if (!isObject(contexts)) throw new Failure(`${path} is damaged: expected {"current", "contexts"}; remove it`);
    const all = new Map<string, Flags>();
    for (const [name, entry] of Object.entries(contexts)) {
      if (!isObject(entry)) throw new Failure(`${path} is damaged: ${name} is not an object; remove it`);
      const flags = CONTEXT_FLAGS.flatMap((flag): [string, string][] => {
        const value = entry[flag];
        return typeof value === 'string' ? [[flag, value]] : [];
      });
      all.set(name, new Map(flags));
    }
    return new Contexts(path, text, all, typeof current === 'string' && all.has(current) ? current : undefined);
  }

  get names(): string[] {
    return [...this.#all.keys()].toSorted();
  }

  get current(): string | undefined {
    return this.#current;
  }

  get(name: string): Flags {
    const found = this.#all.get(name);
    if (found !== undefined) return found;
    const known = this.names.length === 0 ? 'there are none yet' : `there are ${this.names.join(', ')}`;
    throw new NotThere(`there is no context ${name}; ${known}`);
  }

  /** The first one is used from then on. */
  add(name: string, flags: Flags): void {
    if (!/^[\w.-]{1,64}$/.test(name))
      throw new Failure(`${JSON.stringify(name)}: a context has a name of letters, digits, _, . and -`);
    if (this.#all.has(name)) throw new Failure(`there is a context ${name} already; remove it first`);
    const isFile = (flag: string): boolean => flag !== 'url';
    this.#all.set(name, new Map([...flags].map(([flag, value]) => [flag, isFile(flag) ? resolve(value) : value])));
    this.#current ??= name;
    this.#write();
  }

  use(name: string): void {
    this.get(name);
    this.#current = name;
    this.#write();
  }

  remove(name: string): void {
    this.get(name);
    this.#all.delete(name);
    if (this.#current === name) this.#current = undefined;
    this.#write();
  }

  /** For a verb: the one that was chosen by name, else the one in use. */
  flagsFor(chosen: string | undefined): ContextFlags | undefined {
    if (chosen !== undefined) return { isChosen: true, flags: this.get(chosen) };
    return this.#current === undefined ? undefined : { isChosen: false, flags: this.get(this.#current) };
  }

  #write(): void {
    const contexts = Object.fromEntries(this.names.map((name) => [name, Object.fromEntries(this.get(name))]));
    const text = `${JSON.stringify({ current: this.#current, contexts }, null, 2)}\n`;
    const makeFolder = (): void => void mkdirSync(dirname(this.path), { recursive: true, mode: FOLDER_MODE });
    replaceFile(this.path, { before: this.#text, text, readers: 'owner', makeFolder });
  }
}
