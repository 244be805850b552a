/** Tokens that an issuer signs: where its keys come from, and what each token must say. */
import { isLoopback } from '../base/address.ts';
import { type JwtKey, NODE_ISSUER } from '../base/jwt-key.ts';
import { ConfigError } from './error.ts';
import { parseKeyFile } from './jwt-keys.ts';
import type { OptionKey, OptionValues } from './options.ts';
import { readTextFile } from './text-file.ts';

/** `keys` are those of the file, and `keyServer` publishes others. */
export type JwtConfig = Readonly<NonNullable<ReturnType<typeof jwtOf>>>;

const SOURCES = 'http.jwt_keys_file or http.jwks_url';

/** Undefined: no issuer is trusted. Throws ConfigError. */
export function jwtOf(values: OptionValues) {
  const path = values['http.jwt_keys_file'];
  const keyServer = values['http.jwks_url'];
  const [issuer, audience] = [values['http.jwt_issuer'], values['http.jwt_audience']];
  const clockSkewMs = values['http.jwt_clock_skew'];
  if (path === undefined && keyServer === undefined) {
    const alone: OptionKey | undefined =
      issuer !== undefined ? 'http.jwt_issuer' : audience !== undefined ? 'http.jwt_audience' : undefined;
    if (alone === undefined) return undefined;
    throw new ConfigError(`${alone} without keys: ${SOURCES} says with which keys tokens are signed`);
  }
  // Keys of a large issuer sign tokens for others, too, and some of its customers choose their content.
  if (issuer === undefined) throw missing('http.jwt_issuer', 'the "iss" of every token');
  if (audience === undefined) throw missing('http.jwt_audience', 'the "aud" that means these nodes');
  if (issuer === NODE_ISSUER)
    throw new ConfigError(`http.jwt_issuer = "${issuer}": that is what nodes call themselves`);
  if (keyServer !== undefined) checkKeyServer(keyServer);
  const keys = path === undefined ? [] : keysOf(path);
  return { issuer, audience, clockSkewMs, keys, keyServer };
}

function missing(key: OptionKey, meaning: string): ConfigError {
  return new ConfigError(`${key} is not set: with ${SOURCES} it is required, ${meaning}`);
}

/** An impostor that answers in its place could give any client any right. */
function checkKeyServer(url: string): void {
  const { protocol, hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (protocol === 'https:' || isLoopback(host)) return;
  throw new ConfigError(`http.jwks_url = ${JSON.stringify(url)}: expected https, or an address of this host`);
}

function keysOf(path: string): readonly JwtKey[] {
  const label = `http.jwt_keys_file = ${JSON.stringify(path)}`;
  const parsed = parseKeyFile(readTextFile(path, label));
  if (parsed.ok) return parsed.keys;
  throw new ConfigError(`${label}: ${parsed.reason}`);
}
