/** TOML files of operators, whose faults are told with file, line and column and without what the file holds. */
import { parse, TomlError } from 'smol-toml';
import { ConfigError } from './error.ts';
import { readTextFile } from './text-file.ts';

/** Reads a file. `label`: how the operator named the file. Throws ConfigError. */
export function readToml(path: string, label: string): Readonly<Record<string, unknown>> {
  return parseToml(readTextFile(path, label), path);
}

/** `path`: named in front of a fault. Throws ConfigError. */
export function parseToml(source: string, path: string): Readonly<Record<string, unknown>> {
  try {
    return parse(source);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The first line says what; the rest is a drawing of the place.
    const reason = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    throw new ConfigError(`${path}:${error.line}:${error.column}: not valid TOML: ${reason}`);
  }
}
