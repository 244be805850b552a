/** Tokens of the client plane that have scopes: those of a file, and those that an issuer signs. */
import { JwtTokens, isJwt } from '../access/jwt-tokens.ts';
import type { Grant } from '../access/scopes.ts';
import { StaticTokens } from '../access/static-tokens.ts';
import type { TokenBook, TokenFault } from '../access/token-book.ts';
import type { JwtKey } from '../base/jwt-key.ts';
import type { Runtime } from '../base/runtime.ts';
import type { ScopedTokens } from '../config/config.ts';
import type { Logger } from '../logging/logger.ts';
import { KeyServer } from './key-server.ts';

export interface ClientTokensOptions {
  readonly runtime: Runtime;
  readonly log: Logger;
  /** The book gives other grants now. */
  readonly changed: () => void;
}

/** The issuer may sign with a key that is not here yet, whether the token names it or not. */
const OF_OTHER_KEYS: ReadonlySet<unknown> = new Set<TokenFault>([
  ...(['unknown-key', 'ambiguous-key', 'wrong-algorithm', 'wrong-signature'] as const),
]);

export class ClientTokens implements TokenBook {
  readonly #static: StaticTokens;
  readonly #jwt: JwtTokens | undefined;
  readonly #server: KeyServer | undefined;
  readonly #changed: () => void;
  #tokens: ScopedTokens;
  #published: readonly JwtKey[] = [];

  constructor(tokens: ScopedTokens, { runtime, log, changed }: ClientTokensOptions) {
    const { list, jwt } = tokens;
    this.#tokens = tokens;
    this.#changed = changed;
    this.#static = new StaticTokens(list);
    if (jwt === undefined) return;
    this.#jwt = new JwtTokens(jwt, { keys: jwt.keys, revoked: list.revoked });
    if (jwt.keyServer === undefined) return;
    this.#server = new KeyServer({
      url: jwt.keyServer,
      runtime,
      log: (level, fields, sentence) => log[level](fields, sentence),
      changed: (keys) => {
        this.#published = keys;
        this.#apply();
      },
    });
  }

  /** Asks for the keys of the issuer, now and again. */
  start(): void {
    this.#server?.start();
  }

  grantOf(token: string, nowMs: number): Grant | TokenFault {
    const found = this.#static.grantOf(token, nowMs);
    if (found !== 'unknown' || this.#jwt === undefined || !isJwt(token)) return found;
    const signed = this.#jwt.grantOf(token, nowMs);
    if (OF_OTHER_KEYS.has(signed)) this.#server?.missed();
    return signed;
  }

  holds(grant: Grant): boolean {
    return this.#static.holds(grant) || this.#jwt?.holds(grant) === true;
  }

  /** The files were read again. An issuer with other rules, or another server of keys, takes a restart. */
  change(tokens: ScopedTokens): void {
    this.#tokens = tokens;
    this.#static.replace(tokens.list);
    this.#apply();
  }

  metrics(): Readonly<Record<string, number>> {
    const { fetched = 0, failed = 0, keys = 0 } = this.#server?.counters ?? {};
    return { jwks_fetched: fetched, jwks_failed: failed, jwks_keys: keys };
  }

  stop(): void {
    this.#server?.stop();
  }

  #apply(): void {
    const { list, jwt } = this.#tokens;
    this.#jwt?.replace({ keys: [...(jwt?.keys ?? []), ...this.#published], revoked: list.revoked });
    this.#changed();
  }
}
