/**
 * Verifies signed tokens (JWT, RFC 7519) with public keys, at once, because a request cannot wait here. The key decides
 * the algorithm, never the token.
 */
import { TOKEN_ERROR_CODES, createDecoder, createVerifier } from 'fast-jwt';
import { isUseLimits, parseUseLimits } from '../base/use-limits.ts';
import type { JwtKey } from '../base/jwt-key.ts';
import { JWT_KEY_ID_CHARS_MAX, JWT_TRIES_MAX, TOKEN_ID_CHARS_MAX } from '../base/limits.ts';
import { parseScopes } from '../base/scopes.ts';
import type { Grant } from './scopes.ts';
import type { TokenFault } from './token-book.ts';

/** Every token must say this. */
export interface JwtRules {
  readonly issuer: string;
  readonly audience: string;
  /** How much the clocks of issuer and node may differ, in ms. */
  readonly clockSkewMs: number;
}

/** Later seconds have no date, and infinity is among them. */
const SECONDS_MAX = 8.64e12;

type Verify = (token: string) => unknown;

interface UsedKey extends JwtKey {
  readonly verify: Verify;
}

export type Claims = Readonly<Record<string, unknown>>;

export interface VerifiedToken {
  readonly claims: Claims;
  readonly key: JwtKey;
}

export class JwtVerifier {
  readonly #rules: JwtRules;
  readonly #decode: (token: string) => unknown = createDecoder({ complete: true });
  #keys: readonly UsedKey[];

  constructor(rules: JwtRules, keys: readonly JwtKey[]) {
    this.#rules = rules;
    this.#keys = keys.map((key) => ({ ...key, verify: verifierOf(key, rules) }));
  }

  get keys(): readonly JwtKey[] {
    return this.#keys;
  }

  /** Signature, issuer and audience are right; nothing else was looked at. */
  verify(token: string): VerifiedToken | TokenFault {
    const keys = this.#keysFor(token);
    if (typeof keys === 'string') return keys;
    let fault: TokenFault = 'unknown-key';
    for (const key of keys) {
      const claims = verified(token, key.verify);
      if (typeof claims === 'object') return { claims, key };
      fault = claims;
      if (fault !== 'wrong-signature') break;
    }
    return fault;
  }

  /** The keys that may have signed it: the one that it names, and few where it names none. */
  #keysFor(token: string): readonly UsedKey[] | TokenFault {
    const decoded = decodedOf(token, this.#decode);
    if (decoded === undefined) return 'malformed';
    const { alg, kid } = decoded.header;
    if (kid !== undefined && (typeof kid !== 'string' || kid.length > JWT_KEY_ID_CHARS_MAX)) return 'malformed';
    if (!this.#isForHere(decoded.payload)) return 'foreign';
    const named = this.#keys.filter(({ id }) => id !== undefined && id === kid);
    const unnamed = this.#keys.filter(({ id }) => id === undefined);
    const fitting = [named, unnamed, kid === undefined ? this.#keys : []].find(({ length }) => length > 0);
    if (fitting === undefined) return 'unknown-key';
    const keys = fitting.filter(({ algorithm }) => algorithm === alg);
    if (keys.length === 0) return 'wrong-algorithm';
    return keys.length > JWT_TRIES_MAX ? 'ambiguous-key' : keys;
  }

  /** Looked at before the signature, which costs a hundred times as much. */
  #isForHere({ iss, aud, exp }: Claims): boolean {
    const { issuer, audience } = this.#rules;
    const isMeant = aud === audience || (Array.isArray(aud) && aud.includes(audience));
    return iss === issuer && isMeant && exp !== undefined;
  }
}

/** The rights that verified claims give at a moment. */
export function grantOfClaims(claims: Claims, clockSkewMs: number, nowMs: number): Grant | TokenFault {
  const { exp, nbf, jti, sub } = claims;
  if (typeof exp !== 'number' || exp > SECONDS_MAX) return 'malformed';
  const expiresAtMs = exp * 1000 + clockSkewMs;
  if (!(nowMs < expiresAtMs)) return 'expired';
  if (nbf !== undefined && !(typeof nbf === 'number' && nowMs >= nbf * 1000 - clockSkewMs)) {
    return typeof nbf === 'number' ? 'not-yet-valid' : 'malformed';
  }
  const id = jti ?? sub;
  if (typeof id !== 'string' || id === '' || id.length > TOKEN_ID_CHARS_MAX) return 'without-id';
  const parsed = parseScopes(claims['scopes']);
  if (!parsed.ok) return 'wrong-scopes';
  const grant = { id, expiresAtMs, scopes: parsed.scopes };
  if (claims['limits'] === undefined) return grant;
  const limits = parseUseLimits(claims['limits'], 'limits');
  return isUseLimits(limits) ? { ...grant, limits } : 'wrong-limits';
}

function verifierOf({ algorithm, pem }: JwtKey, { issuer, audience }: JwtRules): Verify {
  return createVerifier({
    key: pem,
    algorithms: [algorithm],
    allowedIss: issuer,
    allowedAud: audience,
    requiredClaims: ['iss', 'aud', 'exp'],
    // The times are compared with the clock of the request.
    ignoreExpiration: true,
    ignoreNotBefore: true,
    cache: false,
  });
}

interface Decoded {
  readonly header: Claims;
  readonly payload: Claims;
}

/** Nothing of it is verified. */
function decodedOf(token: string, decode: (token: string) => unknown): Decoded | undefined {
  try {
    return decode(token) as Decoded;
  } catch {
    return undefined;
  }
}

/** Other refusals of a verifier: the choice of the keys comes first, and has made them, or the token is malformed. */
const WRONG_SIGNATURE: ReadonlySet<unknown> = new Set([
  TOKEN_ERROR_CODES.invalidSignature,
  TOKEN_ERROR_CODES.missingSignature,
]);

function verified(token: string, verify: Verify): Claims | TokenFault {
  try {
    return verify(token) as Claims;
  } catch (error) {
    const { code } = error as { readonly code?: unknown };
    return WRONG_SIGNATURE.has(code) ? 'wrong-signature' : 'malformed';
  }
}
