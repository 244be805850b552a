/** Tokens of a file, by the SHA-256 of each: neither the file nor this node needs to hold one in readable form. */
import { createHash } from 'node:crypto';
import type { TokenList } from '../base/scopes.ts';
import { type Grant, isExpired } from './scopes.ts';
import type { TokenBook, TokenFault } from './token-book.ts';

interface Known {
  readonly grant: Grant;
  readonly isRevoked: boolean;
  /** Equal for entries that say the same. */
  readonly written: string;
}

export class StaticTokens implements TokenBook {
  #known: ReadonlyMap<string, Known> = new Map();
  #grants: ReadonlySet<Grant> = new Set();

  constructor(list: TokenList) {
    this.replace(list);
  }

  /** An entry that says the same as before keeps its grant, so that its holders go on. */
  replace({ tokens, revoked }: TokenList): void {
    const isRevoked = new Set(revoked);
    const known = new Map<string, Known>();
    for (const { id, sha256, expiresAtMs = Infinity, scopes, role } of tokens) {
      const written = JSON.stringify([id, String(expiresAtMs), scopes, role]);
      const before = this.#known.get(sha256);
      const rights = role === undefined ? { scopes } : { scopes, role };
      const grant = before?.written === written ? before.grant : { id, expiresAtMs, ...rights };
      known.set(sha256, { grant, isRevoked: isRevoked.has(id), written });
    }
    this.#known = known;
    this.#grants = new Set([...known.values()].flatMap((one) => (one.isRevoked ? [] : [one.grant])));
  }

  /**
   * The digest of what was sent is looked up, never the text: how long that takes tells nothing about the digests of
   * the tokens that would help to find one.
   */
  grantOf(token: string, nowMs: number): Grant | TokenFault {
    const found = this.#known.get(createHash('sha256').update(token, 'utf8').digest('hex'));
    if (found === undefined) return 'unknown';
    if (found.isRevoked) return 'revoked';
    return isExpired(found.grant, nowMs) ? 'expired' : found.grant;
  }

  holds(grant: Grant): boolean {
    return this.#grants.has(grant);
  }
}
