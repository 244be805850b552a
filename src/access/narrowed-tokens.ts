/**
 * Tokens that nodes sign for holders of other ones: with fewer rights, for a shorter time, and in URLs. A node keeps none
 * of them. Each names what it came from, so it ends with that: the ids of all tokens in between, and a seal over the
 * first one, which only the key that signed can make. A child of a child has the key of its parent: a key that goes
 * ends the whole line.
 */
import { createHmac } from 'node:crypto';
import { createSigner } from 'fast-jwt';
import { NODE_ISSUER, type NodeKey } from '../base/jwt-key.ts';
import { NARROWED_DEPTH_MAX, SCOPED_TOKEN_BYTES_MAX, TOKEN_ID_CHARS_MAX } from '../base/limits.ts';
import { type Claims, JwtVerifier, grantOfClaims } from './jwt-verifier.ts';
import { type Scope, parseScopes } from '../base/scopes.ts';
import { type NarrowingWish, isWithin, narrowingFault } from './narrowing.ts';
import { type Grant, isExpired } from './scopes.ts';
import type { ParentBook, ParentToken, TokenBook, TokenFault } from './token-book.ts';

/** The `id` of the token with all rights, which no other one can have. */
export const ALL_RIGHTS_ID = '';

/** Child and parent expire by one clock, whichever node looks. */
const RULES = { issuer: NODE_ISSUER, audience: NODE_ISSUER, clockSkewMs: 0 };

export interface SignedToken {
  readonly id: string;
  readonly token: string;
  readonly expiresAtMs: number;
}

/** Why there is none: `ended`: the parent's rights are over. A sentence: what the parent does not allow. */
export type NarrowingRefusal = 'ended' | { readonly reason: string };

export interface NarrowedState {
  /** The first one signs. */
  readonly keys: readonly NodeKey[];
  readonly revoked: readonly string[];
}

/** The origin of a token that a node signed, as it says itself. */
interface Line {
  readonly keyId: string;
  /** Seals the first parent. */
  readonly seal: string;
  /** From the first parent to the last. */
  readonly ids: readonly string[];
}

export class NarrowedTokens implements TokenBook {
  readonly #parents: ParentBook;
  readonly #newId: () => string;
  readonly #lines = new WeakMap<Grant, Line>();
  #signers: readonly Signer[] = [];
  #verifier = verifierOf([]);
  #revoked: ReadonlySet<string> = new Set();

  /** `newId`: random, so that it is revoked alone. */
  constructor(parents: ParentBook, state: NarrowedState, newId: () => string) {
    this.#parents = parents;
    this.#newId = newId;
    this.replace(state);
  }

  /** Other keys, revocations or parents from the next token on. */
  replace({ keys, revoked }: NarrowedState): void {
    this.#signers = keys.map((key) => new Signer(key));
    this.#verifier = verifierOf(keys);
    this.#revoked = new Set(revoked);
  }

  /** `foreign`: it may be an issuer's. */
  grantOf(token: string, nowMs: number): Grant | TokenFault {
    const grant = this.#granted(token, nowMs);
    return typeof grant === 'object' && grant.isForUrl === true ? 'only-for-urls' : grant;
  }

  /** Any other token has been shown to logs, which is said before anything else. */
  urlGrantOf(token: string, nowMs: number): Grant | TokenFault {
    const grant = this.#granted(token, nowMs);
    if (typeof grant === 'object') return grant.isForUrl === true ? grant : 'not-for-urls';
    return grant === 'foreign' || grant === 'malformed' ? 'foreign-in-url' : grant;
  }

  holds(grant: Grant): boolean {
    const line = this.#lines.get(grant);
    return line !== undefined && this.#faultOf(line, grant) === undefined;
  }

  /** `parent`: the grant of its holder; undefined: all rights. */
  narrow(parent: Grant | undefined, wish: NarrowingWish, nowMs: number): SignedToken | NarrowingRefusal {
    const line = this.#lineBehind(parent);
    if (line === undefined || (parent !== undefined && isExpired(parent, nowMs))) return 'ended';
    const reason = narrowingFault(parent, wish) ?? tooDeep(line);
    if (reason !== undefined) return { reason };
    const endMs = Math.min(nowMs + wish.lifeMs, parent?.expiresAtMs ?? Infinity);
    const exp = Math.floor(endMs / 1000);
    if (exp * 1000 <= nowMs) return 'ended';
    const id = this.#newId();
    const { scopes, isForUrl } = wish;
    const share = this.#shareToSeal(parent, line, scopes);
    const use = isForUrl ? { use: 'url' } : {};
    const limits = parent?.limits === undefined ? {} : { limits: parent.limits };
    const token =
      this.#signer(line.keyId)?.sign({
        ...{ exp, jti: id, from: line.ids, seal: line.seal },
        ...{ ...use, ...limits, ...(share === undefined ? {} : { share }), scopes },
      }) ?? '';
    if (token.length <= SCOPED_TOKEN_BYTES_MAX) return { id, token, expiresAtMs: exp * 1000 };
    return { reason: `the token would have ${token.length} bytes, and ${SCOPED_TOKEN_BYTES_MAX} are the most` };
  }

  #granted(token: string, nowMs: number): Grant | TokenFault {
    const verified = this.#verifier.verify(token);
    if (typeof verified === 'string') return verified;
    const { claims, key } = verified;
    const found = grantOfClaims(claims, RULES.clockSkewMs, nowMs);
    const line = lineOf(claims, key.id);
    if (typeof found === 'string') return found;
    if (line === undefined) return 'malformed';
    // Children of the token with all rights are counted each for itself, and their children as them.
    const parent = this.#parentOf(line);
    const account = parent?.account ?? `node:${line.ids[1] ?? found.id}`;
    const sealed = claims['share'] === undefined ? undefined : parseScopes(claims['share']);
    if (sealed?.ok === false) return 'wrong-scopes';
    const share = parent?.grant?.scopes ?? sealed?.scopes;
    const grant: Grant = {
      ...{ ...found, account, ...(share === undefined ? {} : { share }) },
      ...(claims['use'] === 'url' ? { isForUrl: true } : {}),
    };
    this.#lines.set(grant, line);
    return this.#faultOf(line, grant, parent) ?? grant;
  }

  #faultOf(line: Line, grant: Grant, parent = this.#parentOf(line)): TokenFault | undefined {
    if ([grant.id, ...line.ids].some((id) => this.#revoked.has(id))) return 'revoked';
    return parent !== undefined && isWithin(grant, parent.grant) ? undefined : 'orphaned';
  }

  /** The first parent; undefined: it is valid no longer. */
  #parentOf({ keyId, seal, ids: [first = ALL_RIGHTS_ID] }: Line): ParentToken | undefined {
    const signer = this.#signer(keyId);
    return signer && this.#parents.parentsNamed(first).find(({ seed }) => signer.sealOf(seed) === seal);
  }

  /** The line of the parent's children; undefined: the parent is valid no longer. */
  #lineBehind(parent: Grant | undefined): Line | undefined {
    if (parent !== undefined) {
      const own = this.#lines.get(parent);
      if (own !== undefined) return this.holds(parent) ? { ...own, ids: [...own.ids, parent.id] } : undefined;
    }
    const [signer] = this.#signers;
    const first = parent === undefined ? this.#parents.parentsNamed(ALL_RIGHTS_ID)[0] : this.#parents.parentOf(parent);
    if (signer === undefined || first === undefined) return undefined;
    return { keyId: signer.id, seal: signer.sealOf(first.seed), ids: [parent?.id ?? ALL_RIGHTS_ID] };
  }

  /** Nodes do not keep the scopes of such a parent, and splitting them into small ones must not multiply its share. */
  #shareToSeal(parent: Grant | undefined, line: Line, scopes: readonly Scope[]): readonly Scope[] | undefined {
    if (!scopes.some(({ operations }) => operations.includes('subscribe'))) return undefined;
    return this.#parentOf(line)?.grant === undefined ? (parent?.share ?? parent?.scopes) : undefined;
  }

  #signer(keyId: string): Signer | undefined {
    return this.#signers.find(({ id }) => id === keyId);
  }
}

function tooDeep({ ids }: Line): string | undefined {
  if (ids.length <= NARROWED_DEPTH_MAX) return undefined;
  return `the token was narrowed ${NARROWED_DEPTH_MAX} times already, which is the most`;
}

function verifierOf(keys: readonly NodeKey[]): JwtVerifier {
  return new JwtVerifier(
    RULES,
    keys.map(({ id, pem }) => ({ id, algorithm: 'EdDSA', pem })),
  );
}

function lineOf({ seal, from }: Claims, keyId = ''): Line | undefined {
  if (typeof seal !== 'string' || !Array.isArray(from) || from.length === 0 || from.length > NARROWED_DEPTH_MAX) {
    return undefined;
  }
  const ids = from as readonly unknown[];
  if (!ids.every((id): id is string => typeof id === 'string' && id.length <= TOKEN_ID_CHARS_MAX)) return undefined;
  return { keyId, seal, ids };
}

/** Characters of a seal in base64: 132 bits. */
const SEAL_CHARS = 22;

class Signer {
  readonly id: string;
  readonly sign: (claims: Readonly<Record<string, unknown>>) => string;
  readonly #sealing: Buffer;
  /** A reload asks for those of all live readers. Their number is that of the parents that there are. */
  readonly #seals = new Map<string, string>();

  constructor({ id, secret }: NodeKey) {
    this.id = id;
    this.sign = createSigner({
      ...{ key: secret, algorithm: 'EdDSA', kid: id, iss: RULES.issuer, aud: RULES.audience },
      noTimestamp: true,
    });
    this.#sealing = createHmac('sha256', secret).update('millrace parents').digest();
  }

  /** A token that can be guessed cannot be tried with it, because that takes the key. */
  sealOf(seed: string): string {
    const known = this.#seals.get(seed);
    if (known !== undefined) return known;
    const seal = createHmac('sha256', this.#sealing).update(seed).digest('base64url').slice(0, SEAL_CHARS);
    this.#seals.set(seed, seal);
    return seal;
  }
}
