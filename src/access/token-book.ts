/** Which rights a token has: the port behind which kinds of tokens stand. A request waits for nothing here. */
import { SCOPED_TOKEN_BYTES_MAX } from '../base/limits.ts';
import { type Grant, isExpired } from './scopes.ts';
import { TOKEN_CLOCK } from './token-clock.ts';

/** Why a token opens nothing. */
export type TokenFault = 'unknown' | 'expired' | 'revoked' | 'oversized' | SignedFault;

/** And why one does that an issuer signed, or should have. */
export type SignedFault =
  | 'malformed'
  | 'not-yet-valid'
  | 'unknown-key'
  | 'ambiguous-key'
  | 'wrong-algorithm'
  | 'wrong-signature'
  | 'foreign'
  | 'without-id'
  | 'wrong-scopes'
  | 'orphaned'
  | 'only-for-urls'
  | 'not-for-urls';

export interface TokenBook {
  /** The rights of the token, or why it has none. `token` is what a stranger sent. */
  grantOf(token: string, nowMs: number): Grant | TokenFault;
  /** The same of a token in a URL. Undefined: none is taken from there. */
  readonly urlGrantOf?: ((token: string, nowMs: number) => Grant | TokenFault) | undefined;
  /** Is it still among the grants that this book gives? Whether it has expired is another question. */
  holds(grant: Grant): boolean;
}

/** A token from which nodes made others, which live as long as it does (narrowed-tokens.ts). */
export interface ParentToken {
  /** Tells it from every other token that is or was, and never leaves the node as it is. */
  readonly seed: string;
  /** The rights that it has now. Undefined: all, or those that it always had. */
  readonly grant?: Grant;
}

/** A book of tokens that may be narrowed. */
export interface ParentBook {
  /** Undefined: it is none of this book's, or is valid no longer. */
  parentOf(grant: Grant): ParentToken | undefined;
  /** All that a valid token with this id may be. Whether the id is revoked is another question. */
  parentsNamed(id: string): readonly ParentToken[];
}

/** Bytes of Authorization headers that are remembered: some ten thousand signed tokens. The oldest are forgotten. */
const REMEMBERED_BYTES_MAX = 8 * 1024 * 1024;

/**
 * Remembers the grants of headers that came before, so that a request costs one look-up. Only valid tokens are
 * remembered, so a client without one can put nothing in.
 */
export class RememberedGrants {
  readonly #book: Pick<TokenBook, 'grantOf'>;
  readonly #known = new Map<string, Grant>();
  #bytes = 0;

  constructor(book: Pick<TokenBook, 'grantOf'>) {
    this.#book = book;
  }

  /** Undefined: the header did not come before. */
  remembered(header: string): Grant | 'expired' | undefined {
    const known = this.#known.get(header);
    if (known === undefined || known.expiresAtMs === Infinity) return known;
    return isExpired(known, TOKEN_CLOCK.nowMs()) ? 'expired' : known;
  }

  /** `token`: the one in the header. */
  grantOf(header: string, token: string): Grant | TokenFault {
    // A character takes at least a byte, and visible ASCII takes no more.
    if (token.length > SCOPED_TOKEN_BYTES_MAX) return 'oversized';
    const found = this.#book.grantOf(token, TOKEN_CLOCK.nowMs());
    if (typeof found === 'string') return found;
    // Other spellings of one token take no room from those of others.
    if (header === `Bearer ${token}`) this.#remember(header, found);
    return found;
  }

  /** The header was not known, or has expired. */
  #remember(header: string, grant: Grant): void {
    for (const oldest of this.#known.keys()) {
      if (this.#bytes + header.length <= REMEMBERED_BYTES_MAX) break;
      this.#known.delete(oldest);
      this.#bytes -= oldest.length;
    }
    if (!this.#known.has(header)) this.#bytes += header.length;
    this.#known.set(header, grant);
  }

  /** The book gives other grants now. */
  forget(): void {
    this.#known.clear();
    this.#bytes = 0;
  }
}
