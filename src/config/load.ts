/** Command line, environment and file to `Config`. Flags win over environment, file and defaults, in that order. */
import { hostname as systemName } from 'node:os';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { isTable } from '../base/scopes.ts';
import { type Config, toConfig } from './config.ts';
import { helpText } from './describe.ts';
import { CONFIG_VARIABLE, type EnvironmentVariables, keyMeantBy, readEnvironment, variableOf } from './environment.ts';
import { ConfigError } from './error.ts';
import { type Defaulted, type ValueKind, type Option, refuse } from './kinds.ts';
import { isOptionKey, OPTION_KEYS, type OptionKey, OPTIONS, type OptionValues } from './options.ts';
import { suggest } from './suggest.ts';
import { readToml } from './toml.ts';
import { VERSION } from './version.ts';

type Written = Map<OptionKey, unknown>;

/** Where values come from, the first wins. */
interface Sources {
  readonly flags: ReadonlyMap<string, string>;
  readonly variables: ReadonlyMap<OptionKey, string>;
  readonly written: Written;
  readonly hostname: string;
}

/** `argv` without the names of Node and the script. Throws ConfigError. */
export function loadConfig(argv: readonly string[], environment: EnvironmentVariables = process.env): Config {
  const flags = parseFlags(argv);
  const variables = readEnvironment(environment);
  return configOf({
    flags,
    variables,
    written: writtenFile(flags, environment),
    // Where a pod shares the host's network, the name of the host is not that of the pod.
    hostname: environment['HOSTNAME'] ?? systemName(),
  });
}

/** The tables of a configuration file, without a file. Throws ConfigError. */
export function fromTables(tables: Readonly<Record<string, unknown>>): Config {
  const written: Written = new Map();
  collect(tables, '', written);
  return configOf({ flags: new Map(), variables: new Map(), written, hostname: systemName() });
}

function configOf(sources: Sources): Config {
  const values: Record<string, unknown> = {};
  for (const key of OPTION_KEYS) values[key] = valueOf(key, OPTIONS[key], sources);
  return toConfig(values as OptionValues);
}

/** The text that --help or --version asks for; undefined when neither was given. Throws ConfigError. */
export function helpOrVersion(argv: readonly string[]): string | undefined {
  const flags = parseFlags(argv);
  if (flags.has('help')) return helpText();
  return flags.has('version') ? `${VERSION}\n` : undefined;
}

function valueOf(key: OptionKey, option: Option<unknown>, { flags, variables, written, hostname }: Sources): unknown {
  const { kind, flag } = option;
  const given = flag === undefined ? undefined : flags.get(flag.name);
  if (flag !== undefined && given !== undefined) {
    const value = kind.parse(rawOf(kind, given), key);
    if (value === undefined) throw new ConfigError(`--${flag.name} ${given}: expected ${kind.expected}`);
    return value;
  }
  const text = variables.get(key);
  const raw = text === undefined ? written.get(key) : rawOf(kind, text);
  if (raw === undefined) return (option as Partial<Defaulted<unknown>>).fallback;
  const source = text === undefined ? key : variableOf(key);
  const value = kind.parse(kind.onHost?.(raw, hostname, source) ?? raw, source);
  if (value === undefined) throw refuse(source, kind.secret === true ? '(not shown)' : (text ?? raw), kind.expected);
  return value;
}

function rawOf(kind: ValueKind<unknown>, text: string): unknown {
  return kind.fromText?.(text) ?? text;
}

function writtenFile(flags: ReadonlyMap<string, string>, environment: EnvironmentVariables): Written {
  const flag = flags.get('config');
  if (flag !== undefined) return readConfigFile(flag, `--config ${flag}`);
  const variable = environment[CONFIG_VARIABLE] ?? '';
  return variable === '' ? new Map() : readConfigFile(variable, `${CONFIG_VARIABLE}=${variable}`);
}

/** Unknown keys anywhere are refused: a misspelt key must not become a default. */
function readConfigFile(path: string, label: string): Written {
  const document = readToml(path, label);
  const written: Written = new Map();
  collect(document, '', written);
  return written;
}

const TABLES: ReadonlySet<string> = new Set(OPTION_KEYS.flatMap(tablesAbove));

function collect(table: Readonly<Record<string, unknown>>, prefix: string, written: Written): void {
  for (const [name, value] of Object.entries(table)) {
    const key = prefix + name;
    if (isOptionKey(key)) {
      written.set(key, value);
    } else if (!TABLES.has(key)) {
      throw new ConfigError(`${key}: unknown key${suggest(key, OPTION_KEYS)}`);
    } else if (!isTable(value) || value instanceof Date) {
      throw new ConfigError(`${key} = ${JSON.stringify(value)}: expected a table, [${key}]`);
    } else {
      collect(value, `${key}.`, written);
    }
  }
}

function tablesAbove(key: string): string[] {
  const parts = key.split('.');
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('.'));
}

const SWITCHES = ['help', 'version'];
const TEXT_FLAGS = ['config', ...OPTION_KEYS.flatMap((key) => (OPTIONS[key] as Option<unknown>).flag?.name ?? [])];

const PARSED = Object.fromEntries(TEXT_FLAGS.map((name) => [name, { type: 'string' } as const]));

/** Every flag takes one text and may be given once; the kinds judge the texts, so that flags and file agree. */
function parseFlags(argv: readonly string[]): ReadonlyMap<string, string> {
  const args = argv.map((word) => (word === '-h' ? '--help' : word));
  const { tokens } = parseArgs({ args, options: PARSED, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string>();
  for (const token of tokens) {
    if (token.kind === 'option-terminator') continue;
    if (token.kind === 'positional')
      throw new ConfigError(`unexpected argument ${JSON.stringify(token.value)}; see --help`);
    const { name } = token;
    if (flags.has(name)) throw new ConfigError(`--${name}: given more than once`);
    flags.set(name, valueOfFlag(name, token));
  }
  return flags;
}

function valueOfFlag(
  name: string,
  { value, inlineValue: isInline }: { readonly value?: string | undefined; readonly inlineValue?: boolean | undefined },
): string {
  if (SWITCHES.includes(name)) {
    if (value !== undefined) throw new ConfigError(`--${name}: takes no value`);
    return '';
  }
  if (!TEXT_FLAGS.includes(name)) {
    const known = [...TEXT_FLAGS, ...SWITCHES].map((one) => `--${one}`);
    const near = suggest(`--${name}`, known) || settingMeantBy(name.replaceAll('-', '_'));
    throw new ConfigError(`--${name}: unknown flag${near || '; see --help'}`);
  }
  // The next flag does not count as the value. A negative number does, and its kind refuses it.
  const isMissing = value === undefined || value === '' || (isInline !== true && /^-(?!\d)/.test(value));
  if (isMissing) throw new ConfigError(`--${name}: expected a value; see --help`);
  return value;
}

/** Few keys have flags: a guessed one may be another name of a flag, or a key that has none. */
function settingMeantBy(name: string): string {
  const key = keyMeantBy(name);
  if (key === undefined) return '';
  const { flag } = OPTIONS[key] as Option<unknown>;
  return `; did you mean ${flag === undefined ? variableOf(key) : `--${flag.name}`} (${key})?`;
}
