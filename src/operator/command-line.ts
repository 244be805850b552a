/** One table per verb -> parsing, help and refusals. yargs only splits, so that every refusal is a sentence of ours. */
import { splitLine, suggest } from '../config/split-line.ts';
import { UsageError } from './failure.ts';

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
}

export interface VerbDescription {
  readonly name: string;
  readonly about: string;
  /** Shown below the flags by --help; a test reads each as the tool would. */
  readonly examples: readonly string[];
  readonly flags: Readonly<Record<string, Flag>>;
}

/** A day: longer waits are slips of the key. */
const SECONDS_MAX = 86_400;
const INTEGER_MAX = 2 ** 32 - 1;
const HELP_COLUMN = 32;

type Environment = Readonly<Record<string, string | undefined>>;

/** The values of one verb's flags, checked. */
export class Values {
  readonly #verb: VerbDescription;
  readonly #given: ReadonlyMap<string, string>;

  constructor(verb: VerbDescription, flags: ReadonlyMap<string, string>, env: Environment) {
    const given = new Map(flags);
    for (const [name, flag] of Object.entries(verb.flags)) {
      const value = flag.env === undefined ? undefined : env[flag.env]?.trim();
      if (value !== undefined && value !== '' && !given.has(name)) given.set(name, value);
    }
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

function parseInteger(written: string, min: number): number | undefined {
  const number = /^\d{1,10}$/.test(written) ? Number(written) : -1;
  return number >= min && number <= INTEGER_MAX ? number : undefined;
}

export interface CommandLine<V extends VerbDescription> {
  /** Undefined with help for all verbs. */
  readonly verb: V | undefined;
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
  } = splitLine(withDashes(argv, [...texts]), [...texts], [...switches], (message) => new UsageError(message));
  const given = new Map<string, string>();
  for (const [name, value] of Object.entries(flags)) {
    if (Array.isArray(value)) throw new UsageError(`--${name}: given more than once`);
    given.set(name, String(value));
  }
  // As others have it: help VERB.
  const asked = words.map(String);
  const isHelpWord = asked[0] === 'help';
  const [word, ...more] = isHelpWord ? asked.slice(1) : asked;
  const verb = verbs.find(({ name }) => name === word);
  const help = given.delete('help') || (isHelpWord && (word === undefined || verb !== undefined));
  const version = given.delete('version');
  if (help || version) return { verb, help, version, given };
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
  if (word === undefined) throw new UsageError(`give a verb: ${verbs.map(({ name }) => name).join(', ')}; see --help`);
  if (verb === undefined) {
    const names = verbs.map(({ name }) => name);
    throw new UsageError(`${JSON.stringify(word)}: unknown verb${suggest(word, names) || '; see --help'}`);
  }
  if (more.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(more[0])}; see ${verb.name} --help`);
  for (const [name, value] of given) checkFlag(verb, name, value);
  return { verb, help, version, given };
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

const placeholder = ({ kind, value }: Flag): string =>
  value ?? { text: 'TEXT', seconds: 'SECONDS', integer: 'N', ids: 'ID,ID', switch: '' }[kind];

export function helpOfAll(verbs: readonly VerbDescription[]): string {
  return [
    'usage: millracectl VERB [--config CLUSTER_FILE] [FLAGS]; VERB --help lists the flags of a verb',
    '',
    ...verbs.map(({ name, about }) => `  ${name.padEnd(18)}${about}`),
    '',
    'CLUSTER_FILE lists the nodes (TOML, JSON or YAML; - for stdin):  [[nodes]]  id = 1  host = "10.0.0.1"',
    'MILLRACE_CLUSTER names it where --config is not given.',
    'MILLRACE_ADMIN_TOKEN, or the file of --token-file, is the bearer token of the admin planes, where they want one.',
    'Exit codes: 0 done; 2 given up half-way and cleaned up, or a wrong command line; 1 anything else.',
    '',
  ].join('\n');
}

export function helpOfVerb({ name, about, examples, flags }: VerbDescription): string {
  const lines = Object.entries(flags).map(([flagName, flag]) => {
    const left = `  --${flagName} ${placeholder(flag)}`.trimEnd();
    const extra = flag.fallback === undefined ? (flag.required === true ? ' (required)' : '') : ` (${flag.fallback})`;
    return `${left.padEnd(HELP_COLUMN)}  ${flag.about}${extra}`;
  });
  const shown = examples.map((line) => `  ${line}`);
  return [`millracectl ${name}: ${about}`, '', ...lines, '', ...shown, ''].join('\n');
}
