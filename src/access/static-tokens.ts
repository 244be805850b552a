/** Tokens of a file, by the SHA-256 of each: neither the file nor this node needs to hold one in readable form. */
import { createHash } from 'node:crypto';
import type { TokenList } from '../base/scopes.ts';
import { type Grant, isExpired } from './scopes.ts';
import type { ParentBook, ParentToken, TokenBook, TokenFault } from './token-book.ts';

interface Known {
  readonly grant: Grant;
  readonly isRevoked: boolean;
  /** Equal for entries that say the same. */
  readonly written: string;
}

export class StaticTokens implements TokenBook, ParentBook {
  #known: ReadonlyMap<string, Known> = new Map();
  /** Those that are not revoked, with the SHA-256 of their tokens. */
  #grants: ReadonlyMap<Grant, string> = new Map();
  #byId: ReadonlyMap<string, Grant> = new Map();

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
    this.#grants = new Map(
      [...known].flatMap(([sha256, one]) => (one.isRevoked ? [] : [[one.grant, sha256] as const])),
    );
    this.#byId = new Map([...this.#grants.keys()].map((grant) => [grant.id, grant]));
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

  parentOf(grant: Grant): ParentToken | undefined {
    const sha256 = this.#grants.get(grant);
    return sha256 === undefined ? undefined : { seed: `file ${sha256}`, grant, account: grant.id };
  }

  parentsNamed(id: string): readonly ParentToken[] {
    const grant = this.#byId.get(id);
    const parent = grant && this.parentOf(grant);
    return parent === undefined ? [] : [parent];
  }
}
