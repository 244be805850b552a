/** Files that settings name. */
import { readFileSync } from 'node:fs';
import { caughtMessage } from '../base/caught.ts';
import { ConfigError } from './error.ts';

/** `label`: how the operator named the file. Throws ConfigError. */
export function readTextFile(path: string, label: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError(`${label}: cannot be read (${caughtMessage(error)})`);
  }
}
