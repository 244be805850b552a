/** Reads one TOML file into option values. Unknown keys anywhere are refused: a misspelt key must not become a default. */
import { readFileSync } from 'node:fs';
import { parse, TomlError } from 'smol-toml';
import { ConfigError } from './error.ts';
import { isOptionKey, OPTION_KEYS } from './options.ts';
import type { OptionKey } from './options.ts';
import { suggest } from './suggest.ts';

export type Written = Map<OptionKey, unknown>;

export function readConfigFile(path: string): Written {
  let source: string;
  try {
    source = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(
      `--config ${path}: cannot be read (${error instanceof Error ? error.message : String(error)})`,
    );
  }
  let document: Readonly<Record<string, unknown>>;
  try {
    document = parse(source);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The first line says what; the rest is a drawing of the place.
    const reason = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    throw new ConfigError(`${path}:${error.line}:${error.column}: not valid TOML: ${reason}`);
  }
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
    } else if (!isTable(value)) {
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

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
