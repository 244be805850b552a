/** Files that settings name. */
import { readFileSync } from 'node:fs';
import { caughtMessage } from '../base/caught.ts';
import { ConfigError } from './error.ts';
import { refuse } from './kinds.ts';
import type { OptionKey } from './options.ts';

/** `label`: how the operator named the file. Throws ConfigError. */
export function readTextFile(path: string, label: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${label}: cannot be read (${caughtMessage(error)})`);
  }
}

/** The file that an option names. Throws ConfigError. */
export function readText(key: OptionKey, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw refuse(key, path, `a readable file (${caughtMessage(error)})`);
  }
}
