/**
 * Settings from the environment: `MILLRACE_RAFT__NODE_ID=2` is `raft.node_id = 2` in a file. Other names that begin with
 * MILLRACE_ are refused: with a guessed `MILLRACE_DATA_DIR` or `MILLRACE_TOKEN` a node would start in the wrong folder, and open.
 */
import { ConfigError } from './error.ts';
import { OPTION_KEYS, type OptionKey } from './options.ts';
import { nearest } from './suggest.ts';

/** As `process.env` is. */
export type EnvironmentVariables = Readonly<Record<string, string | undefined>>;

/** Names the configuration file, as `--config` does. */
export const CONFIG_VARIABLE = 'MILLRACE_CONFIG';

const PREFIX = 'MILLRACE_';
/** No key has two underscores in a row, and a name of a variable no dot. */
const DOT = '__';

const KEY_OF: ReadonlyMap<string, OptionKey> = new Map(OPTION_KEYS.map((key) => [variableOf(key), key]));
/** Variables of the log, of the server's command line and of the tool, which may share an environment with a node. */
const OTHERS: ReadonlySet<string> = new Set(
  [
    ...['LOG', 'LOG_FILE', 'CONFIG', 'CLUSTER', 'CONTEXT', 'URL', 'CA_FILE', 'CERT_FILE'],
    ...['ADMIN_TOKEN', 'CLIENT_TOKEN', 'FROM_TOKEN', 'SCRAPE_TOKEN'],
  ].map((name) => PREFIX + name),
);
/** Kubernetes sets these in a pod for each service whose name begins with ours. */
const OF_A_SERVICE = /_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

export function variableOf(key: string): string {
  return PREFIX + key.replaceAll('.', DOT).toUpperCase();
}

/** The texts by key. An empty variable is as good as none: templates write it for what is unset. Throws ConfigError. */
export function readEnvironment(environment: EnvironmentVariables): ReadonlyMap<OptionKey, string> {
  const texts = new Map<OptionKey, string>();
  for (const [name, text] of Object.entries(environment)) {
    const key = KEY_OF.get(name);
    if (key === undefined) checkName(name);
    else if (text !== undefined && text !== '') texts.set(key, text);
  }
  return texts;
}

function checkName(name: string): void {
  if (!name.startsWith(PREFIX) || OTHERS.has(name)) return;
  if (!name.includes(DOT) && OF_A_SERVICE.test(name)) return;
  const key = keyMeantBy(name.slice(PREFIX.length).toLowerCase().replaceAll(DOT, '.'));
  throw new ConfigError(
    key === undefined
      ? `${name}: no key has this variable; src/config/README.md lists them`
      : `${name}: unknown key; did you mean ${variableOf(key)} (${key})?`,
  );
}

/** Ports and tokens are several; the client plane's are what strangers meet. */
const GUESSES: ReadonlyMap<string, OptionKey> = new Map([
  ['port', 'server.listen'],
  ['host', 'server.listen'],
  ['token', 'http.client_token'],
]);

/** The key that a guessed or mistyped name was meant to be. */
export function keyMeantBy(written: string): OptionKey | undefined {
  return GUESSES.get(written) ?? nearest(written, OPTION_KEYS);
}
