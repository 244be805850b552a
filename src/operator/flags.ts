/** A verb is a table of flags, from which command line, help and completion follow; `Values` reads what was given. */
import { parseDurationMs, parseSizeBytes } from '../config/values.ts';
import { UsageError } from '../nodes/failure.ts';
import type { EnvironmentVariables } from '../config/environment.ts';

/** `seconds` and `size` may have a fraction and a unit; `ids` is a list such as 1,2,3; a `switch` has no value. */
type Kind = 'text' | 'seconds' | 'size' | 'integer' | 'ids' | 'switch';

export interface Flag {
  readonly kind: Kind;
  readonly about: string;
  /** Placeholder of the value in --help. */
  readonly value?: string;
  readonly fallback?: number;
  readonly required?: boolean;
  /** Environment variable that stands for the flag where that is not given. */
  readonly env?: string;
  readonly min?: number;
  readonly max?: number;
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

/** Flags that a context gives. */
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

  constructor(
    verb: VerbDescription,
    flags: ReadonlyMap<string, string>,
    env: EnvironmentVariables,
    context?: ContextFlags,
  ) {
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
      if (flag.kind === 'size' && this.has(name)) this.bytes(name);
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

  /** The flag must be one that is required. */
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
    const { fallback, min = 0, max = SECONDS_MAX } = this.#flag(name);
    const written = this.#given.get(name);
    const seconds = written === undefined ? fallback : secondsOf(written);
    if (seconds === undefined || seconds < min || seconds > max)
      throw new UsageError(`--${name} ${written}: expected seconds from ${min} to ${max}, or a time as 500ms or 5m`);
    return Math.round(seconds * 1000);
  }

  bytes(name: string): number {
    const { fallback, min = 0, max = Number.MAX_SAFE_INTEGER } = this.#flag(name);
    const written = this.#given.get(name);
    const bytes = written === undefined ? fallback : sizeOf(written);
    if (bytes === undefined || bytes < min || bytes > max)
      throw new UsageError(`--${name} ${written}: expected bytes from ${min} to ${max}, or a size as 64KiB`);
    return bytes;
  }

  integer(name: string): number {
    const { fallback, min = 0, max = INTEGER_MAX } = this.#flag(name);
    const written = this.#given.get(name);
    const number = written === undefined ? fallback : parseInteger(written, min);
    if (number === undefined || number > max)
      throw new UsageError(`--${name} ${written}: expected a number from ${min} to ${max}`);
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
 * Flags, then a chosen context, then the environment, then the context in use. An address that is named brings no
 * token or authority of the context in use along: they belong to its own addresses.
 */
function withDefaults(
  verb: VerbDescription,
  flags: ReadonlyMap<string, string>,
  env: EnvironmentVariables,
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

/** A number of seconds, or a time with a unit as in the configuration. */
function secondsOf(written: string): number | undefined {
  if (/^\d+(\.\d+)?$/.test(written)) return Number(written);
  const ms = parseDurationMs(written);
  return ms === undefined ? undefined : ms / 1000;
}

/** A number of bytes, or a size with a unit as in the configuration. */
export function sizeOf(written: string): number | undefined {
  return /^\d{1,15}$/.test(written) ? Number(written) : parseSizeBytes(written);
}

/** Placeholder of a flag's value in help and errors. */
export const placeholder = ({ kind, value }: Flag): string =>
  value ?? { text: 'TEXT', seconds: 'SECONDS', size: 'SIZE', integer: 'N', ids: 'ID,ID', switch: '' }[kind];
