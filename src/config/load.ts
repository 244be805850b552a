/** Command line and file to `Config`. Flags win over the file, the file over the defaults. */
import { toConfig } from './config.ts';
import type { Config } from './config.ts';
import { helpText } from './describe.ts';
import { ConfigError } from './error.ts';
import { readConfigFile } from './file.ts';
import type { Written } from './file.ts';
import { refuse } from './kinds.ts';
import { OPTION_KEYS, OPTIONS } from './options.ts';
import type { Defaulted, Option } from './option.ts';
import type { OptionKey, Values } from './options.ts';
import { splitLine } from './split-line.ts';
import { suggest } from './suggest.ts';
import { VERSION } from './version.ts';

/** `argv` without the names of Node and the script. Throws ConfigError. */
export function loadConfig(argv: readonly string[]): Config {
  const flags = parseFlags(argv);
  const path = flags.get('config');
  const written: Written = path === undefined ? new Map<OptionKey, unknown>() : readConfigFile(path);
  const values: Record<string, unknown> = {};
  for (const key of OPTION_KEYS) values[key] = valueOf(key, OPTIONS[key], written, flags);
  return toConfig(values as Values);
}

/** The text that --help or --version asks for; undefined when neither was given. Throws ConfigError. */
export function helpOrVersion(argv: readonly string[]): string | undefined {
  const flags = parseFlags(argv);
  if (flags.has('help')) return helpText();
  return flags.has('version') ? `${VERSION}\n` : undefined;
}

function valueOf(
  key: OptionKey,
  option: Option<unknown>,
  written: Written,
  flags: ReadonlyMap<string, string>,
): unknown {
  const { kind, flag } = option;
  const text = flag === undefined ? undefined : flags.get(flag.name);
  if (flag !== undefined && text !== undefined) {
    const value = kind.parse(kind.fromFlag?.(text) ?? text, key);
    if (value === undefined) throw new ConfigError(`--${flag.name} ${text}: expected ${kind.expected}`);
    return value;
  }
  const raw = written.get(key);
  if (raw === undefined) return (option as Partial<Defaulted<unknown>>).fallback;
  const value = kind.parse(raw, key);
  if (value === undefined) throw refuse(key, kind.secret === true ? '(not shown)' : raw, kind.expected);
  return value;
}

const SWITCHES = ['help', 'version'];
const TEXT_FLAGS = ['config', ...OPTION_KEYS.flatMap((key) => (OPTIONS[key] as Option<unknown>).flag?.name ?? [])];

/** Every flag takes one text and may be given once; the kinds judge the texts, so that flags and file agree. */
function parseFlags(argv: readonly string[]): ReadonlyMap<string, string> {
  const {
    _: positional,
    $0: _scriptName,
    ...given
  } = splitLine(argv, TEXT_FLAGS, SWITCHES, (message) => new ConfigError(message));
  if (positional.length > 0) throw new ConfigError(`unexpected argument ${JSON.stringify(positional[0])}; see --help`);
  const flags = new Map<string, string>();
  for (const [name, value] of Object.entries(given)) {
    if (Array.isArray(value)) throw new ConfigError(`--${name}: given more than once`);
    if (SWITCHES.includes(name)) {
      if (value !== true) throw new ConfigError(`--${name}: takes no value`);
    } else if (!TEXT_FLAGS.includes(name)) {
      const known = [...TEXT_FLAGS, ...SWITCHES].map((one) => `--${one}`);
      throw new ConfigError(`--${name}: unknown flag${suggest(`--${name}`, known) || '; see --help'}`);
    } else if (value === '') {
      throw new ConfigError(`--${name}: expected a value; see --help`);
    }
    flags.set(name, String(value));
  }
  return flags;
}
