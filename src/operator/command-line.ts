/** One table per verb -> parsing, help and refusals. yargs only splits, so that every refusal is a sentence of ours. */
import { splitLine, suggest } from '../config/split-line.ts';
import { UsageError } from './failure.ts';
import type { Environment } from './io.ts';

/** `seconds` may have a fraction; `ids` is a list such as 1,2,3; a `switch` has no value. */
type Kind = 'text' | 'seconds' | 'integer' | 'ids' | 'switch';

export interface Flag {
  readonly kind: Kind;
  readonly about: string;
  /** What stands for the value in --help. */
  readonly value?: string;
  readonly fallback?: number;
  readonly required?: true;
  /** Environment variable that stands for the flag where that is not given. */
  readonly env?: string;
  readonly min?: number;
  /** The only values that it takes. */
  readonly choices?: readonly string[];
  /** One letter: `-f` for `--follow`. It means the same flag in all verbs. */
  readonly short?: string;
}

export interface VerbDescription {
  /** One word, or two: `stream cat` is a verb of the group `stream`. */
  readonly name: string;
  readonly about: string;
  /** Flags that may be given as words, in this order, without their names. */
  readonly words?: readonly string[];
  /** Shown below the flags by --help; a test reads each as the tool would. */
  readonly examples: readonly string[];
  readonly flags: Readonly<Record<string, Flag>>;
}

/** A day: longer waits are slips of the key. */
const SECONDS_MAX = 86_400;
const INTEGER_MAX = 2 ** 32 - 1;

/** What a context says in place of flags. */
export interface ContextFlags {
  /** By --context or MILLRACE_CONTEXT, so it precedes the environment; the one in use comes behind. */
  readonly isChosen: boolean;
  readonly flags: ReadonlyMap<string, string>;
}

/** Flags that say which cluster is meant. */
const ADDRESSES = ['url', 'config'];

/** The values of one verb's flags, checked. */
export class Values {
  readonly #verb: VerbDescription;
  readonly #given: ReadonlyMap<string, string>;

  constructor(verb: VerbDescription, flags: ReadonlyMap<string, string>, env: Environment, context?: ContextFlags) {
    const given = withDefaults(verb, flags, env, context);
    this.#verb = verb;
    this.#given = given;
    for (const [name, flag] of Object.entries(verb.flags)) {
      const { required, fallback } = flag;
      if (required === true && fallback === undefined && !given.has(name))
        throw new UsageError(
          `${verb.name} needs --${name} ${placeholder(flag)}${flag.env === undefined ? '' : `, or ${flag.env}`}; see ${verb.name} --help`,
        );
      if (flag.kind === 'seconds' && this.has(name)) this.ms(name);
      if (flag.kind === 'integer' && this.has(name)) this.integer(name);
      if (flag.kind === 'ids' && given.has(name)) this.ids(name);
      const value = given.get(name);
      if (flag.choices !== undefined && value !== undefined && !flag.choices.includes(value))
        throw new UsageError(`--${name} ${value}: expected ${flag.choices.join(' or ')}`);
    }
  }

  has(name: string): boolean {
    return this.#given.has(name) || this.#flag(name).fallback !== undefined;
  }

  text(name: string): string | undefined {
    this.#flag(name);
    return this.#given.get(name);
  }

  /** Of a flag that is required. */
  required(name: string): string {
    const text = this.text(name);
    if (text === undefined) throw new Error(`${this.#verb.name} does not require --${name}`);
    return text;
  }

  isSet(name: string): boolean {
    this.#flag(name);
    return this.#given.has(name);
  }

  ms(name: string): number {
    const { fallback, min = 0 } = this.#flag(name);
    const written = this.#given.get(name);
    const seconds = written === undefined ? fallback : /^\d+(\.\d+)?$/.test(written) ? Number(written) : undefined;
    if (seconds === undefined || seconds < min || seconds > SECONDS_MAX)
      throw new UsageError(`--${name} ${written}: expected seconds from ${min} to ${SECONDS_MAX}`);
    return Math.round(seconds * 1000);
  }

  integer(name: string): number {
    const { fallback, min = 0 } = this.#flag(name);
    const written = this.#given.get(name);
    const number = written === undefined ? fallback : parseInteger(written, min);
    if (number === undefined)
      throw new UsageError(`--${name} ${written}: expected a number from ${min} to ${INTEGER_MAX}`);
    return number;
  }

  /** In the order that was given. */
  ids(name: string): number[] | undefined {
    this.#flag(name);
    const written = this.#given.get(name);
    if (written === undefined) return undefined;
    const ids = written.split(',').map((part) => parseInteger(part.trim(), 1));
    const valid = ids.filter((id) => id !== undefined);
    if (valid.length < ids.length) throw new UsageError(`--${name} ${written}: expected node ids such as 1,2,3`);
    if (new Set(valid).size < valid.length) throw new UsageError(`--${name} ${written}: names a node twice`);
    return valid;
  }

  #flag(name: string): Flag {
    const flag = this.#verb.flags[name];
    if (flag === undefined) throw new Error(`${this.#verb.name} has no --${name}`);
    return flag;
  }
}

/**
 * Flags, then a chosen context, then the environment, then the context in use. An address that is named brings no token or
 * authority of the context in use along: they belong to its own addresses.
 */
function withDefaults(
  verb: VerbDescription,
  flags: ReadonlyMap<string, string>,
  env: Environment,
  context: ContextFlags | undefined,
): Map<string, string> {
  const given = new Map(flags);
  const isAddressed = ADDRESSES.some((name) => flags.has(name));
  const add = (values: ReadonlyMap<string, string>): void => {
    for (const [name, value] of values) if (Object.hasOwn(verb.flags, name) && !given.has(name)) given.set(name, value);
  };
  if (context?.isChosen === true) {
    if (isAddressed) throw new UsageError('--context names the cluster already: leave out --url and --config');
    add(context.flags);
  }
  const isChosen = isAddressed || context?.isChosen === true;
  const told = Object.entries(verb.flags).flatMap(([name, flag]): [string, string][] => {
    const value = flag.env === undefined || (isChosen && ADDRESSES.includes(name)) ? undefined : env[flag.env]?.trim();
    return value === undefined || value === '' ? [] : [[name, value]];
  });
  add(new Map(told));
  if (context?.isChosen === false && !ADDRESSES.some((name) => given.has(name))) add(context.flags);
  return given;
}

function parseInteger(written: string, min: number): number | undefined {
  const number = /^\d{1,10}$/.test(written) ? Number(written) : -1;
  return number >= min && number <= INTEGER_MAX ? number : undefined;
}

export interface CommandLine<V extends VerbDescription> {
  /** Undefined with help for all verbs, or for those of a group. */
  readonly verb: V | undefined;
  readonly group?: string;
  readonly help: boolean;
  readonly version: boolean;
  readonly given: ReadonlyMap<string, string>;
}

const SWITCHES = ['help', 'version'];

export function parseCommandLine<V extends VerbDescription>(
  argv: readonly string[],
  verbs: readonly V[],
): CommandLine<V> {
  const texts = new Set<string>();
  const switches = new Set(SWITCHES);
  for (const { flags } of verbs) {
    for (const [name, { kind }] of Object.entries(flags)) (kind === 'switch' ? switches : texts).add(name);
  }
  const {
    _: words,
    $0: _script,
    ...flags
  } = splitLine(withDashes(withLongNames(argv, verbs), [...texts]), [...texts], [...switches], (message) => {
    return new UsageError(message);
  });
  const given = new Map<string, string>();
  for (const [name, value] of Object.entries(flags)) {
    if (Array.isArray(value)) throw new UsageError(`--${name}: given more than once`);
    given.set(name, String(value));
  }
  // As others have it: help VERB.
  const asked = words.map(String);
  const isHelpWord = asked[0] === 'help';
  const { verb, group, word, rest } = findVerb(isHelpWord ? asked.slice(1) : asked, verbs);
  const isKnown = verb !== undefined || (group !== undefined && rest.length === 0);
  const help = given.delete('help') || (isHelpWord && (word === undefined || isKnown));
  const version = given.delete('version');
  if (help || version) return { verb, ...(group === undefined ? {} : { group }), help, version, given };
  const [stray] = given.keys();
  if (word === undefined && stray !== undefined && !texts.has(stray) && !switches.has(stray))
    throw new UsageError(
      `--${stray}: unknown flag${
        suggest(
          `--${stray}`,
          [...texts, ...switches].map((one) => `--${one}`),
        ) || '; see --help'
      }`,
    );
  if (verb === undefined) throw noVerb(word, group, rest, verbs);
  for (const [name, value] of given) checkFlag(verb, name, value);
  placeWords(verb, rest, given);
  return { verb, help, version, given };
}

interface Found<V> {
  readonly verb: V | undefined;
  /** The first word is that of several verbs. */
  readonly group: string | undefined;
  readonly word: string | undefined;
  readonly rest: readonly string[];
}

function findVerb<V extends VerbDescription>(words: readonly string[], verbs: readonly V[]): Found<V> {
  const [first, second, ...rest] = words;
  const pair = verbs.find(({ name }) => name === `${first} ${second}`);
  if (pair !== undefined) return { verb: pair, group: undefined, word: first, rest };
  const verb = verbs.find(({ name }) => name === first);
  const isGroup = first !== undefined && verb === undefined && verbsOf(verbs, first).length > 0;
  return { verb, group: isGroup ? first : undefined, word: first, rest: words.slice(1) };
}

function verbsOf<V extends VerbDescription>(verbs: readonly V[], group: string): V[] {
  return verbs.filter(({ name }) => name.startsWith(`${group} `));
}

function noVerb(
  word: string | undefined,
  group: string | undefined,
  [second]: readonly string[],
  verbs: readonly VerbDescription[],
): UsageError {
  const names = verbs.map(({ name }) => name);
  if (word === undefined) return new UsageError(`give a verb: ${names.join(', ')}; see --help`);
  if (group === undefined)
    return new UsageError(`${JSON.stringify(word)}: unknown verb${suggest(word, names) || '; see --help'}`);
  const inGroup = verbsOf(verbs, group).map(({ name }) => name.slice(group.length + 1));
  if (second === undefined) return new UsageError(`${group} needs a verb: ${inGroup.join(', ')}; see ${group} --help`);
  const hint = suggest(second, inGroup) || `; see ${group} --help`;
  return new UsageError(`${JSON.stringify(`${group} ${second}`)}: unknown verb${hint}`);
}

/** Words behind the verb are values of its flags. */
function placeWords(verb: VerbDescription, words: readonly string[], given: Map<string, string>): void {
  const places = verb.words ?? [];
  for (const [i, word] of words.entries()) {
    const name = places[i];
    if (name === undefined)
      throw new UsageError(`unexpected argument ${JSON.stringify(word)}; see ${verb.name} --help`);
    if (given.has(name)) throw new UsageError(`--${name}: given more than once`);
    given.set(name, word);
  }
}

/** `-n 5` as `--lines 5`, up to the word `--`. */
function withLongNames(argv: readonly string[], verbs: readonly VerbDescription[]): string[] {
  const names = new Map(
    verbs.flatMap(({ flags }) =>
      Object.entries(flags).flatMap(([name, { short }]): [string, string][] =>
        short === undefined ? [] : [[`-${short}`, `--${name}`]],
      ),
    ),
  );
  const end = argv.indexOf('--');
  return argv.map((word, i) => (end >= 0 && i > end ? word : (names.get(word) ?? word)));
}

function checkFlag(verb: VerbDescription, name: string, value: string): void {
  const flag = Object.hasOwn(verb.flags, name) ? verb.flags[name] : undefined;
  if (flag === undefined) {
    const known = Object.keys(verb.flags).map((one) => `--${one}`);
    const hint = suggest(`--${name}`, known) || `; see ${verb.name} --help`;
    throw new UsageError(`--${name}: unknown flag of ${verb.name}${hint}`);
  }
  if (flag.kind === 'switch' && value !== 'true') throw new UsageError(`--${name}: takes no value`);
  if (value === '') throw new UsageError(`--${name}: expected ${placeholder(flag)}; see ${verb.name} --help`);
}

/** yargs takes the `-` of `--config -` for a word of its own. */
function withDashes(argv: readonly string[], texts: readonly string[]): string[] {
  const joined: string[] = [];
  for (const word of argv) {
    const before = joined.at(-1);
    if (word === '-' && before?.startsWith('--') === true && texts.includes(before.slice(2)))
      joined.push(`${joined.pop()}=-`);
    else joined.push(word);
  }
  return joined;
}

/** What stands for the value of a flag. */
export const placeholder = ({ kind, value }: Flag): string =>
  value ?? { text: 'TEXT', seconds: 'SECONDS', integer: 'N', ids: 'ID,ID', switch: '' }[kind];
