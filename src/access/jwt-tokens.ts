/**
 * Tokens that an issuer signs, with the scopes in a claim of the shape that the file of tokens has. What was verified is
 * remembered (token-book.ts).
 */
import type { JwtKey } from '../base/jwt-key.ts';
import { type JwtRules, JwtVerifier, grantOfClaims } from './jwt-verifier.ts';
import type { Grant } from './scopes.ts';
import type { ParentBook, ParentToken, TokenBook, TokenFault } from './token-book.ts';

export interface JwtState {
  readonly keys: readonly JwtKey[];
  /** Ids of tokens (`jti`, else `sub`) that open nothing any more. */
  readonly revoked: readonly string[];
}

/** The origin of a grant, for as long as a reader or session holds it. */
interface Source {
  readonly pem: string;
  readonly id: string;
}

export class JwtTokens implements TokenBook, ParentBook {
  readonly #rules: JwtRules;
  readonly #sources = new WeakMap<Grant, Source>();
  #verifier: JwtVerifier;
  #revoked: ReadonlySet<string> = new Set();

  constructor(rules: JwtRules, { keys, revoked }: JwtState) {
    this.#rules = rules;
    this.#verifier = new JwtVerifier(rules, keys);
    this.#revoked = new Set(revoked);
  }

  /** Other keys and revocations from the next token on. */
  replace({ keys, revoked }: JwtState): void {
    this.#verifier = new JwtVerifier(this.#rules, keys);
    this.#revoked = new Set(revoked);
  }

  grantOf(token: string, nowMs: number): Grant | TokenFault {
    const verified = this.#verifier.verify(token);
    if (typeof verified === 'string') return verified;
    const found = grantOfClaims(verified.claims, this.#rules.clockSkewMs, nowMs);
    if (typeof found === 'string') return found;
    const grant = { ...found, account: accountOf(found.id) };
    if (this.#revoked.has(grant.id)) return 'revoked';
    this.#sources.set(grant, { pem: verified.key.pem, id: grant.id });
    return grant;
  }

  holds(grant: Grant): boolean {
    const source = this.#sources.get(grant);
    if (source === undefined || this.#revoked.has(source.id)) return false;
    return this.#verifier.keys.some(({ pem }) => pem === source.pem);
  }

  /** A token of an issuer never changes, so issuer, audience, key and id stand for it. */
  parentOf(grant: Grant): ParentToken | undefined {
    const source = this.#sources.get(grant);
    return source !== undefined && this.holds(grant) ? { seed: this.#seedOf(source.pem) } : undefined;
  }

  parentsNamed(id: string): readonly ParentToken[] {
    return this.#verifier.keys.map(({ pem }) => ({ seed: this.#seedOf(pem), account: accountOf(id) }));
  }

  /** The same key may sign for an issuer, or for nodes, that is trusted no longer after a restart. */
  #seedOf(pem: string): string {
    return `issuer ${JSON.stringify([this.#rules.issuer, this.#rules.audience])} ${pem}`;
  }
}

/** No id in a file has a colon, so a name that an issuer's user chose uses up nothing of a token in the file. */
function accountOf(id: string): string {
  return `issuer:${id}`;
}

/** Three parts: a static token has no dots, or is not in the file. */
export function isJwt(token: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(token);
}
