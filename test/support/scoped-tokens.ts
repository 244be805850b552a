// Tokens with scopes for tests: the text of each is its id, made long enough.
import { createHash } from 'node:crypto';
import { isJwt } from '../../src/access/jwt-tokens.ts';
import { StaticTokens } from '../../src/access/static-tokens.ts';
import type { TokenBook } from '../../src/access/token-book.ts';
import type { ListedToken, OperatorRole, Scope, ScopedOperation } from '../../src/base/scopes.ts';

export function textOf(id: string): string {
  return `token-of-${id}-${'0123456789abcdef'.repeat(2)}`;
}

export function bearer(id: string): { readonly Authorization: string } {
  return { Authorization: `Bearer ${textOf(id)}` };
}

export function scopeOf(bucket: string, streams: string, ...operations: readonly ScopedOperation[]): Scope {
  return { bucket, streams, operations };
}

export function listed(id: string, scopes: readonly Scope[], expiresAtMs?: number): ListedToken {
  return { id, sha256: createHash('sha256').update(textOf(id)).digest('hex'), expiresAtMs, scopes };
}

/** Tokens of a file, as a plane has them. */
export function bookOf(tokens: readonly ListedToken[], revoked: readonly string[] = []): StaticTokens {
  return new StaticTokens({ tokens, revoked });
}

/** A token of the admin plane. */
export function withRole(id: string, role: OperatorRole, expiresAtMs?: number): ListedToken {
  return { ...listed(id, [], expiresAtMs), role };
}

/** The token of an issuer whose keys a strict book does not have. */
export const KEYLESS = { Authorization: 'Bearer keyless' };

/** The same for a plane whose issuer has signed none of what comes. */
export function strictBookOf(tokens: readonly ListedToken[]): TokenBook {
  const book = bookOf(tokens);
  return {
    grantOf: (token, nowMs) => {
      if (token === 'keyless') return 'without-keys';
      return isJwt(token) ? 'wrong-signature' : book.grantOf(token, nowMs);
    },
    holds: (grant) => book.holds(grant),
  };
}

const TRIES_MAX = 1000;

/** Asks with wrong tokens until the plane looks at no more of them. */
export async function flooded<Answer extends { readonly status: number }>(
  ask: (token: { readonly Authorization: string }) => Promise<Answer>,
): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    const answer = await ask({ Authorization: 'Bearer a.b.c' });
    if (answer.status !== 401 || tries === TRIES_MAX) return answer;
  }
}
