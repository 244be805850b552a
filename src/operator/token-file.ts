/**
 * Changes a file of tokens with scopes or roles. What comes out is read as a node reads it before it replaces the file,
 * and must differ from the file before by that one token only.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { caughtCode } from '../base/caught.ts';
import { SCOPED_OPERATIONS, type ListedToken, type Scope, type TokenList, parseScopes } from '../base/scopes.ts';
import { type UseLimits, isUseLimits, parseUseLimits } from '../base/use-limits.ts';
import { ConfigError } from '../config/error.ts';
import { withRevoked, withToken, withoutToken } from '../config/tokens-edit.ts';
import { toTokens } from '../config/tokens-file.ts';
import { parseToml } from '../config/toml.ts';
import { Failure, NotThere, UsageError, reasonOf } from '../nodes/failure.ts';
import { sizeOf } from './flags.ts';
import { replaceFile } from './whole-file.ts';

/** Bytes of a token that is made here: more than can be guessed. */
const TOKEN_BYTES = 32;
const EMPTY: TokenList = { tokens: [], revoked: [] };

export interface IssuedToken {
  /** Shown once, and written nowhere. */
  readonly token: string;
  readonly entry: ListedToken;
}

export interface TokenWish {
  readonly id: string;
  readonly rights: Pick<ListedToken, 'scopes' | 'role' | 'limits'>;
  readonly expiresAtMs: number | undefined;
}

/** `shop/orders-*:append,read;logs:read`: bucket, streams and operations of each scope. */
export function scopesOf(written: string): readonly Scope[] {
  const refused = (reason: string): UsageError =>
    new UsageError(
      `--scopes ${written}: ${reason}; write BUCKET/STREAMS:${SCOPED_OPERATIONS.slice(0, 2).join(',')},...`,
    );
  const raw = written.split(';').map((one) => {
    const colon = one.lastIndexOf(':');
    if (colon < 0) throw refused(`${JSON.stringify(one)} names no operations`);
    const names = one.slice(0, colon).trim();
    const operations = one.slice(colon + 1).split(',');
    const slash = names.indexOf('/');
    return {
      bucket: slash < 0 ? names : names.slice(0, slash),
      streams: slash < 0 ? '*' : names.slice(slash + 1),
      operations: operations.map((operation) => operation.trim()),
    };
  });
  const parsed = parseScopes(raw);
  if (!parsed.ok) throw refused(`${parsed.fault.place}: ${parsed.fault.reason}`);
  return parsed.scopes;
}

/** `requests_per_second=50,bytes_per_second=10MiB`: as the file has them. */
export function limitsOf(written: string): UseLimits {
  const raw = written.split(',').map((one) => /^ *(\w+) *= *(.*?) *$/.exec(one)?.slice(1) ?? [one]);
  const limits = parseUseLimits(Object.fromEntries(raw.map(([name = '', n = '']) => [name, sizeOf(n)])), 'limits');
  if (isUseLimits(limits)) return limits;
  throw new UsageError(`--limits ${written}: ${limits.place}: ${limits.reason}`);
}

export class TokenFile {
  readonly path: string;
  readonly list: TokenList;
  readonly #text: string;

  private constructor(path: string, text: string, list: TokenList) {
    this.path = path;
    this.#text = text;
    this.list = list;
  }

  /** `missing`: whether a file that is not there counts as an empty one. */
  static read(path: string, missing: 'refused' | 'empty'): TokenFile {
    try {
      const text = readFileSync(path, 'utf8');
      return new TokenFile(path, text, listOf(text, path));
    } catch (error) {
      if (error instanceof Failure) throw error;
      if (missing === 'empty' && caughtCode(error) === 'ENOENT') return new TokenFile(path, '', EMPTY);
      throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
    }
  }

  find(id: string): ListedToken {
    const found = this.list.tokens.find((one) => one.id === id);
    if (found === undefined) throw new NotThere(`there is no token ${id} in ${this.path}`);
    return found;
  }

  /** Makes a token and writes its digest. */
  issue({ id, rights, expiresAtMs }: TokenWish): IssuedToken {
    const { tokens, revoked } = this.list;
    if (tokens.some((one) => one.id === id)) throw new Failure(`there is a token ${id} already; revoke it first`);
    if (revoked.includes(id)) throw new Failure(`${id} is revoked in ${this.path}; take another id`);
    const token = randomBytes(TOKEN_BYTES).toString('hex');
    const entry = { id, sha256: createHash('sha256').update(token).digest('hex'), expiresAtMs, ...rights };
    this.#replace(withToken(this.#text, entry), { tokens: [...tokens, entry], revoked });
    return { token, entry };
  }

  /** Takes the entry out of the file. */
  revoke(id: string): void {
    const { tokens, revoked } = this.list;
    const at = tokens.findIndex((one) => one.id === id);
    if (at < 0)
      throw new NotThere(`there is no token ${id} in ${this.path}; --signed ends one that an issuer or a node signed`);
    this.#replace(withoutToken(this.#text, at), { tokens: tokens.toSpliced(at, 1), revoked });
  }

  /** Ends a token that is in no file, by its id: every node looks for that among the revoked ones. */
  revokeSigned(id: string): void {
    const { tokens, revoked } = this.list;
    if (tokens[0]?.role !== undefined)
      throw new Failure(`${this.path} is of the admin plane, where no token is signed; name that of http.tokens_file`);
    if (!revoked.includes(id)) this.#replace(withRevoked(this.#text, id), { tokens, revoked: [id, ...revoked] });
  }

  #replace(text: string, expected: TokenList): void {
    if (!isDeepStrictEqual(listOf(text, this.path), expected))
      throw new Failure(`${this.path} is not written with one [[tokens]] for each token, so change it by hand`);
    replaceFile(this.path, { before: this.#text, text, readers: 'as-before' });
  }
}

function listOf(text: string, path: string): TokenList {
  try {
    return toTokens(parseToml(text, path), path);
  } catch (error) {
    if (error instanceof ConfigError) throw new Failure(error.message);
    throw error;
  }
}
