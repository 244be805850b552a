// Keys of age in files, as operators keep them, and the settings that name them.
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';

export interface KeyPair {
  readonly identity: string;
  readonly recipient: string;
  /** Closed to other users. */
  readonly identityFile: string;
  readonly recipientsFile: string;
}

/** `make`: of another kind than X25519. */
export async function newKeyPair(folder: string, name: string, make = generateX25519Identity): Promise<KeyPair> {
  const identity = await make();
  const recipient = await identityToRecipient(identity);
  const [identityFile, recipientsFile] = [join(folder, `${name}.key`), join(folder, `${name}.pub`)];
  writeIdentities(identityFile, [identity]);
  writeFileSync(recipientsFile, `${recipient}\n`);
  return { identity, recipient, identityFile, recipientsFile };
}

export function writeIdentities(file: string, identities: readonly string[]): void {
  writeFileSync(file, `# kept by the test\n${identities.join('\n')}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
}

/** Lines of `[storage.cold]`. Without recipients objects are read and not encrypted. */
export function coldKeysToml({
  identities,
  recipients,
}: {
  readonly identities: string;
  readonly recipients?: string | undefined;
}): string {
  const line = (name: string, path: string): string => `encryption_${name}_file = ${JSON.stringify(path)}\n`;
  return line('identity', identities) + (recipients === undefined ? '' : line('recipients', recipients));
}
