/** Tokens of the client plane that have scopes: those of a file, those that an issuer signs, and those of nodes. */
import { JwtTokens, isJwt } from '../access/jwt-tokens.ts';
import { ALL_RIGHTS_ID, NarrowedTokens } from '../access/narrowed-tokens.ts';
import type { Grant } from '../access/scopes.ts';
import { StaticTokens } from '../access/static-tokens.ts';
import type { ParentBook, ParentToken, TokenBook, TokenFault } from '../access/token-book.ts';
import { TOKEN_CLOCK } from '../access/token-clock.ts';
import type { AuditEntry } from '../audit/entry.ts';
import { toHex } from '../base/hex.ts';
import type { JwtKey } from '../base/jwt-key.ts';
import type { Runtime } from '../base/runtime.ts';
import type { ScopedTokens } from '../config/config.ts';
import type { NarrowingPort } from '../http/routes/tokens.ts';
import type { Logger } from '../logging/logger.ts';
import { KeyServer } from './key-server.ts';
import { publishedChanges } from './token-changes.ts';

export interface ClientTokensOptions {
  readonly runtime: Runtime;
  readonly log: Logger;
  /** The book gives other grants now. */
  readonly changed: () => void;
  /** Keys that a server publishes have changed, for the audit log. */
  readonly tell: (change: AuditEntry) => void;
}

/** The configuration, as far as it says which tokens there are. */
export interface KnownTokens {
  readonly scoped: ScopedTokens;
  /** The one with all rights; empty: there is none. */
  readonly client: string;
}

const ID_BYTES = 16;

/** The issuer may sign with a key that is not here yet, whether the token names it or not. */
const OF_OTHER_KEYS: ReadonlySet<unknown> = new Set<TokenFault>([
  ...(['unknown-key', 'ambiguous-key', 'wrong-algorithm', 'wrong-signature'] as const),
]);

export class ClientTokens implements TokenBook, ParentBook {
  readonly #static: StaticTokens;
  readonly #jwt: JwtTokens | undefined;
  readonly #narrowed: NarrowedTokens | undefined;
  readonly #server: KeyServer | undefined;
  readonly #changed: () => void;
  #tokens: KnownTokens;
  #signed = 0;
  #published: readonly JwtKey[] = [];

  /** Undefined: the node has no key to sign with. */
  readonly narrowing: NarrowingPort | undefined;
  readonly urlGrantOf: TokenBook['urlGrantOf'];

  constructor(tokens: KnownTokens, { runtime, log, changed, tell }: ClientTokensOptions) {
    const { list, jwt } = tokens.scoped;
    this.#tokens = tokens;
    this.#changed = changed;
    this.#static = new StaticTokens(list);
    this.#narrowed = this.#narrowedTokens(runtime);
    const narrowed = this.#narrowed;
    this.urlGrantOf = narrowed && ((token, nowMs) => this.#own(narrowed.urlGrantOf(token, nowMs)));
    this.narrowing = narrowed && {
      holder: (parent) => {
        const { client } = this.#tokens;
        return (wish) => {
          if (parent === undefined && this.#tokens.client !== client) return 'ended';
          const made = narrowed.narrow(parent, wish, TOKEN_CLOCK.nowMs());
          if (typeof made === 'object' && 'token' in made) this.#signed++;
          return made;
        };
      },
    };
    if (jwt === undefined) return;
    this.#jwt = new JwtTokens(jwt, { keys: jwt.keys, revoked: list.revoked });
    if (jwt.keyServer === undefined) return;
    this.#server = new KeyServer({
      url: jwt.keyServer,
      runtime,
      log: (level, fields, sentence) => log[level](fields, sentence),
      changed: (keys) => {
        for (const change of publishedChanges(this.#published, keys)) tell(change);
        this.#published = keys;
        this.#apply();
      },
    });
  }

  /** Asks for the keys of the issuer, now and again. Resolves when they are here, or do not come for now. */
  async start(): Promise<void> {
    await this.#server?.start();
  }

  grantOf(token: string, nowMs: number): Grant | TokenFault {
    const found = this.#static.grantOf(token, nowMs);
    if (found !== 'unknown' || !isJwt(token)) return found;
    const own = this.#narrowed?.grantOf(token, nowMs) ?? 'foreign';
    if (own !== 'foreign') return this.#own(own);
    if (this.#jwt === undefined) return found;
    const signed = this.#jwt.grantOf(token, nowMs);
    if (OF_OTHER_KEYS.has(signed)) this.#server?.missed();
    return signed === 'unknown-key' ? this.#withoutKeys(signed) : signed;
  }

  /** The key of the issuer's token from which a child was made may be new here, too. */
  #own(found: Grant | TokenFault): Grant | TokenFault {
    if (found !== 'orphaned') return found;
    this.#server?.missed();
    return this.#withoutKeys(found);
  }

  /** A client that is told that its token is wrong asks no more with it, here and elsewhere. */
  #withoutKeys(fault: TokenFault): TokenFault {
    return this.#server?.isAway === true ? 'without-keys' : fault;
  }

  holds(grant: Grant): boolean {
    return [this.#static, this.#jwt, this.#narrowed].some((book) => book?.holds(grant) === true);
  }

  parentOf(grant: Grant): ParentToken | undefined {
    return this.#static.parentOf(grant) ?? this.#jwt?.parentOf(grant);
  }

  parentsNamed(id: string): readonly ParentToken[] {
    const { client } = this.#tokens;
    if (id === ALL_RIGHTS_ID) return client === '' ? [] : [{ seed: `all rights ${client}` }];
    return [...this.#static.parentsNamed(id), ...(this.#jwt?.parentsNamed(id) ?? [])];
  }

  /** The files were read again. An issuer with other rules, or another server of keys, takes a restart. */
  change(tokens: KnownTokens): void {
    this.#tokens = tokens;
    this.#static.replace(tokens.scoped.list);
    this.#apply();
  }

  metrics(): Readonly<Record<string, number>> {
    const { fetched = 0, failed = 0, keys = 0 } = this.#server?.counters ?? {};
    return { jwks_fetched: fetched, jwks_failed: failed, jwks_keys: keys, tokens_signed: this.#signed };
  }

  stop(): void {
    this.#server?.stop();
  }

  #narrowedTokens(runtime: Runtime): NarrowedTokens | undefined {
    const { signingKeys: keys, list } = this.#tokens.scoped;
    if (keys.length === 0) return undefined;
    return new NarrowedTokens(this, { keys, revoked: list.revoked }, () => toHex(runtime.randomBytes(ID_BYTES)));
  }

  #apply(): void {
    const { list, jwt, signingKeys } = this.#tokens.scoped;
    this.#jwt?.replace({ keys: [...(jwt?.keys ?? []), ...this.#published], revoked: list.revoked });
    this.#narrowed?.replace({ keys: signingKeys, revoked: list.revoked });
    this.#changed();
  }
}
