/**
 * Settings from the environment: `MILLRACE_RAFT__NODE_ID=2` is `raft.node_id = 2` in a file. Names that look like a
 * key and are none are refused: a misspelt setting must not become a default.
 */
import { ConfigError } from './error.ts';
import { OPTION_KEYS } from './options.ts';
import type { OptionKey } from './options.ts';
import { nearest } from './suggest.ts';

/** As `process.env` is. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** Names the configuration file, as `--config` does. */
export const CONFIG_VARIABLE = 'MILLRACE_CONFIG';

const PREFIX = 'MILLRACE_';
/** No key has two underscores in a row, and a name of a variable no dot. */
const DOT = '__';

const KEY_OF: ReadonlyMap<string, OptionKey> = new Map(OPTION_KEYS.map((key) => [variableOf(key), key]));
/** With one underscore for a dot: what is easily written by mistake. */
const MISTAKEN: ReadonlySet<string> = new Set(OPTION_KEYS.map((key) => variableOf(key).replaceAll(DOT, '_')));

export function variableOf(key: string): string {
  return PREFIX + key.replaceAll('.', DOT).toUpperCase();
}

/**
 * The texts by key. An empty variable is as good as none: templates write it for what is not set. Throws ConfigError.
 */
export function readEnvironment(environment: EnvironmentVariables): ReadonlyMap<OptionKey, string> {
  const texts = new Map<OptionKey, string>();
  for (const [name, text] of Object.entries(environment)) {
    const key = KEY_OF.get(name);
    if (key === undefined) checkName(name);
    else if (text !== undefined && text !== '') texts.set(key, text);
  }
  return texts;
}

/**
 * Names without a section are not ours alone: the tool has some, and Kubernetes sets
 * MILLRACE_SERVICE_HOST and the like.
 */
function checkName(name: string): void {
  if (!name.startsWith(PREFIX) || !(name.includes(DOT) || MISTAKEN.has(name))) return;
  const key = nearest(name.slice(PREFIX.length).replaceAll(DOT, '.').toLowerCase(), OPTION_KEYS);
  throw new ConfigError(
    key === undefined
      ? `${name}: no key has this variable; src/config/README.md lists them`
      : `${name}: unknown key; did you mean ${variableOf(key)} (${key})?`,
  );
}
