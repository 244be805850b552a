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
  | 'without-keys'
  | 'ambiguous-key'
  | 'wrong-algorithm'
  | 'wrong-signature'
  | 'foreign'
  | 'without-id'
  | 'wrong-scopes'
  | 'wrong-limits'
  | 'orphaned'
  | 'only-for-urls'
  | 'not-for-urls'
  | 'foreign-in-url';

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
  /** Counts what it and its children use; undefined: it has no limits, and each child is counted for itself. */
  readonly account?: string;
}

/** A book of tokens that may be narrowed. */
export interface ParentBook {
  /** Undefined: it is none of this book's, or is valid no longer. */
  parentOf(grant: Grant): ParentToken | undefined;
  /** All that a valid token with this id may be. Whether the id is revoked is another question. */
  parentsNamed(id: string): readonly ParentToken[];
}

/** Said of a token before its signature is looked at, or because that is wrong: a stranger can make any number of them. */
const UNPROVEN: ReadonlySet<TokenFault> = new Set<TokenFault>([
  ...(['unknown', 'oversized', 'malformed', 'foreign', 'foreign-in-url'] as const),
  ...(['unknown-key', 'without-keys', 'ambiguous-key', 'wrong-algorithm', 'wrong-signature'] as const),
]);

/** Bytes of Authorization headers that are remembered: some ten thousand signed tokens. The oldest are forgotten. */
const REMEMBERED_BYTES_MAX = 8 * 1024 * 1024;
/** For so long a token that was real has ended without another look: its parent or its time may come yet. */
const FAULT_MS = 1000;

interface Remembered {
  readonly found: Grant | TokenFault;
  readonly sinceMs: number;
  /** How often the book had changed. */
  changes: number;
}

/**
 * Remembers what became of headers that came before, so that a request costs one look-up. Only tokens that are or were
 * valid are remembered, so a client without one can put nothing in.
 */
export class RememberedGrants {
  readonly #book: Pick<TokenBook, 'grantOf' | 'holds'>;
  readonly #known = new Map<string, Remembered>();
  #bytes = 0;
  #changes = 0;

  constructor(book: Pick<TokenBook, 'grantOf' | 'holds'>) {
    this.#book = book;
  }

  /** Undefined: the header did not come before. */
  remembered(header: string): Grant | TokenFault | undefined {
    const known = this.#known.get(header);
    if (known === undefined) return undefined;
    const { found } = known;
    if (typeof found === 'string') {
      const isFresh = Math.abs(TOKEN_CLOCK.nowMs() - known.sinceMs) < FAULT_MS;
      return isFresh && known.changes === this.#changes ? found : undefined;
    }
    if (known.changes !== this.#changes) {
      if (!this.#book.holds(found)) return undefined;
      known.changes = this.#changes;
    }
    return found.expiresAtMs !== Infinity && isExpired(found, TOKEN_CLOCK.nowMs()) ? 'expired' : found;
  }

  /** For a token that is not remembered. */
  grantOf(token: string): Grant | TokenFault {
    // A character takes at least a byte, and visible ASCII takes no more.
    if (token.length > SCOPED_TOKEN_BYTES_MAX) return 'oversized';
    const sinceMs = TOKEN_CLOCK.nowMs();
    const found = this.#book.grantOf(token, sinceMs);
    const isProven = typeof found !== 'string' || !UNPROVEN.has(found);
    if (isProven) this.#remember(headerOf(token), { found, sinceMs, changes: this.#changes });
    return found;
  }

  #remember(header: string, one: Remembered): void {
    for (const oldest of this.#known.keys()) {
      if (this.#bytes + header.length <= REMEMBERED_BYTES_MAX) break;
      this.#known.delete(oldest);
      this.#bytes -= oldest.length;
    }
    if (!this.#known.has(header)) this.#bytes += header.length;
    this.#known.set(header, one);
  }

  /** The book gives other grants now. Those that it still holds are not verified again. */
  change(): void {
    this.#changes++;
  }
}

/** The usual spelling, under which all others are remembered too. */
export function headerOf(token: string): string {
  return `Bearer ${token}`;
}
