/**
 * Public keys that tokens are signed with, from PEM or JWK. The key says which algorithm its tokens have, never the
 * token: so a public key is no secret of an HMAC, and `none` is no algorithm.
 */
import { type JsonWebKey, type KeyObject, createPublicKey } from 'node:crypto';
import { caughtMessage } from '../base/caught.ts';
import type { JwtAlgorithm, JwtKey } from '../base/jwt-key.ts';
import { JWT_KEYS_MAX, JWT_KEY_ID_CHARS_MAX } from '../base/limits.ts';
import { type PemBlock, pemBlocks } from '../base/pem.ts';
import { isTable } from '../base/scopes.ts';

/** Keys, or why there are none. */
export type ParsedKeys =
  | { readonly ok: true; readonly keys: readonly JwtKey[] }
  | { readonly ok: false; readonly reason: string };

const PEM_PUBLIC: ReadonlySet<string> = new Set(['PUBLIC KEY', 'RSA PUBLIC KEY', 'CERTIFICATE']);
const RSA_BITS_MIN = 2048;
/** A larger one takes the main thread half a millisecond and more for each token. */
const RSA_BITS_MAX = 4096;
const USABLE = `Ed25519, P-256, or RSA of ${RSA_BITS_MIN} to ${RSA_BITS_MAX} bits`;

/** A file of the operator: every key in it must be usable. */
export function parseKeyFile(text: string): ParsedKeys {
  let blocks: readonly PemBlock[];
  try {
    blocks = pemBlocks(text);
  } catch (error) {
    return bad(caughtMessage(error));
  }
  if (blocks.length === 0) return parseJwks(text, 'all');
  if (blocks.length > JWT_KEYS_MAX) return bad(`it holds ${blocks.length} keys, and ${JWT_KEYS_MAX} are the most`);
  const keys: JwtKey[] = [];
  for (const [i, { pem, label }] of blocks.entries()) {
    const name = `key ${i + 1}`;
    if (label.includes('PRIVATE')) return bad(`${name} is a private key: give nodes the public one only`);
    if (!PEM_PUBLIC.has(label)) return bad(`${name} is a ${label}, and no public key`);
    const key = keyOf(name, undefined, () => createPublicKey(pem));
    if (typeof key === 'string') return bad(key);
    keys.push(key);
  }
  return { ok: true, keys };
}

/**
 * A JWK, or a set of them, which may be empty: its issuer withdrew the last one. `usable`: others are left out, because a
 * key server may sign other things, too. Keys of different kinds may share an id.
 */
export function parseJwks(text: string, which: 'all' | 'usable'): ParsedKeys {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    return bad(which === 'all' ? 'it holds neither PEM nor JSON' : 'it is no JSON');
  }
  const set = listOf(document);
  if (set === undefined) return bad('it is neither a JWK nor a set of them ({"keys": [...]})');
  if (set.length > JWT_KEYS_MAX) return bad(`it holds ${set.length} keys, and ${JWT_KEYS_MAX} are the most`);
  const keys: JwtKey[] = [];
  for (const [i, jwk] of set.entries()) {
    const key = keyOfJwk(`key ${i + 1}`, jwk);
    if (typeof key !== 'string') keys.push(key);
    else if (which === 'all') return bad(key);
  }
  return { ok: true, keys };
}

function listOf(document: unknown): readonly unknown[] | undefined {
  if (!isTable(document)) return undefined;
  const { keys } = document;
  if (Array.isArray(keys)) return keys as readonly unknown[];
  return document['kty'] === undefined ? undefined : [document];
}

/** A sentence: it is not usable. */
function keyOfJwk(name: string, jwk: unknown): JwtKey | string {
  if (!isTable(jwk)) return `${name} is no JWK`;
  const { kid, kty, use, alg } = jwk;
  if (kty === 'oct' || jwk['d'] !== undefined) return `${name} holds a secret: give nodes public keys only`;
  if (kid !== undefined && (typeof kid !== 'string' || kid === '' || kid.length > JWT_KEY_ID_CHARS_MAX)) {
    return `${name} has a kid that is no text of 1 to ${JWT_KEY_ID_CHARS_MAX} characters`;
  }
  if (use !== undefined && use !== 'sig') return `${name} is not for signatures ("use": ${JSON.stringify(use)})`;
  const key = keyOf(name, kid, () => createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' }));
  if (typeof key === 'string' || alg === undefined || alg === key.algorithm) return key;
  return `${name} is for ${JSON.stringify(alg)}, and its tokens would be ${key.algorithm}`;
}

function keyOf(name: string, id: string | undefined, read: () => KeyObject): JwtKey | string {
  try {
    const key = read();
    const algorithm = algorithmOf(key);
    if (algorithm === undefined) return `${name} is none of ${USABLE}`;
    return { id, algorithm, pem: key.export({ type: 'spki', format: 'pem' }).toString() };
  } catch (error) {
    return `${name} cannot be read (${caughtMessage(error)})`;
  }
}

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails = {} }: KeyObject): JwtAlgorithm | undefined {
  const { namedCurve, modulusLength = 0 } = asymmetricKeyDetails;
  if (asymmetricKeyType === 'ed25519') return 'EdDSA';
  if (asymmetricKeyType === 'ec') return namedCurve === 'prime256v1' ? 'ES256' : undefined;
  const isRsa = asymmetricKeyType === 'rsa' && modulusLength >= RSA_BITS_MIN && modulusLength <= RSA_BITS_MAX;
  return isRsa ? 'RS256' : undefined;
}

function bad(reason: string): ParsedKeys {
  return { ok: false, reason };
}
