/** Keys with which nodes sign tokens for holders of others: Ed25519 in PEM, of which the first signs and all verify. */
import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { SIGNING_KEYS_MAX } from '../base/limits.ts';
import { caughtMessage } from '../base/caught.ts';
import type { NodeKey } from '../base/jwt-key.ts';
import { type PemBlock, pemBlocks } from '../base/pem.ts';
import { ConfigError } from './error.ts';
import type { OptionValues } from './options.ts';
import { readTextFile } from './text-file.ts';

/** 72 bits tell some keys apart, and are short in a URL. */
const ID_CHARS = 12;

/** Empty: nodes sign none. Throws ConfigError, which never shows a key. */
export function signingKeysOf(values: OptionValues): readonly NodeKey[] {
  const path = values['http.signing_key_file'];
  if (path === undefined) return [];
  const label = `http.signing_key_file = ${JSON.stringify(path)}`;
  const parents = ['http.client_token', 'http.client_token_file', 'http.tokens_file', 'http.jwt_issuer'] as const;
  if (parents.every((key) => values[key] === undefined)) {
    throw new ConfigError(`${label}: there is no token from which others could be made; set http.client_token_file`);
  }
  const blocks = blocksOf(readTextFile(path, label), label);
  if (blocks.length === 0 || blocks.length > SIGNING_KEYS_MAX) {
    throw new ConfigError(
      `${label}: expected 1 to ${SIGNING_KEYS_MAX} private keys in PEM, and it has ${blocks.length}`,
    );
  }
  return blocks.map(({ pem }, i) => {
    const key = keyOf(pem);
    if (key !== undefined) return key;
    throw new ConfigError(
      `${label}: block ${i + 1} is no Ed25519 private key: "openssl genpkey -algorithm ed25519" makes one`,
    );
  });
}

function blocksOf(text: string, label: string): readonly PemBlock[] {
  try {
    return pemBlocks(text);
  } catch (error) {
    throw new ConfigError(`${label}: ${caughtMessage(error)}`);
  }
}

function keyOf(pem: string): NodeKey | undefined {
  try {
    const secret = createPrivateKey(pem);
    if (secret.asymmetricKeyType !== 'ed25519') return undefined;
    const open = createPublicKey(secret);
    const id = createHash('sha256')
      .update(open.export({ type: 'spki', format: 'der' }))
      .digest('base64url');
    return {
      id: id.slice(0, ID_CHARS),
      secret: secret.export({ type: 'pkcs8', format: 'pem' }).toString(),
      pem: open.export({ type: 'spki', format: 'pem' }).toString(),
    };
  } catch {
    return undefined;
  }
}
