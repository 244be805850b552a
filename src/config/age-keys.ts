/** Files with keys of age, as `age-keygen` writes them: a key in each line, comments begin with #. */
import { statSync } from 'node:fs';
import { ConfigError } from './error.ts';
import { readTextFile } from './text-file.ts';

const IDENTITY = /^AGE-SECRET-KEY-(PQ-)?1[02-9AC-HJ-NP-Z]{20,}$/;
/** Other kinds than X25519 have their name in front: age1pq1... Which kinds there are is up to the package. */
const RECIPIENT = /^age1(?:[a-z]{1,16}1)?[02-9ac-hj-np-z]{20,}$/;
const FILE_BYTES_MAX = 64 * 1024;
const OTHERS = 0o007;

/** `label`: how the operator named the file. Throws ConfigError, which shows nothing of the file. */
export function identitiesIn(path: string, label: string): readonly string[] {
  const text = readTextFile(path, label);
  const mode = statSync(path).mode & 0o777;
  if ((mode & OTHERS) !== 0) {
    const shown = mode.toString(8).padStart(4, '0');
    throw new ConfigError(
      `${label}: expected a file that is closed to other users (chmod o= ${path}); its mode is ${shown}`,
    );
  }
  return keysIn(text, label, { kind: IDENTITY, named: 'an identity of age (AGE-SECRET-KEY-1...)' });
}

/** As identitiesIn; recipients are no secrets. */
export function recipientsIn(path: string, label: string): readonly string[] {
  return keysIn(readTextFile(path, label), label, { kind: RECIPIENT, named: 'a recipient of age (age1...)' });
}

function keysIn(text: string, label: string, { kind, named }: { readonly kind: RegExp; readonly named: string }) {
  if (text.length > FILE_BYTES_MAX) throw new ConfigError(`${label}: expected at most ${FILE_BYTES_MAX} bytes`);
  const keys: string[] = [];
  for (const [i, line] of text.split('\n').entries()) {
    const key = line.trim();
    if (key === '' || key.startsWith('#')) continue;
    if (!kind.test(key)) throw new ConfigError(`${label}: expected ${named} in line ${i + 1}`);
    keys.push(key);
  }
  if (keys.length === 0) throw new ConfigError(`${label}: expected ${named} in it; it has none`);
  return keys;
}
