/** Why a token opens nothing, as clients and metrics are told. */
import type { RefusalReason } from '../base/errors.ts';
import type { SignedFault, TokenFault } from './token-book.ts';

/**
 * Why a request has no rights. `throttled`: too many wrong ones were verified. `several`: it has more than one token.
 * `misplaced`: a URL holds one, and this is no read.
 */
export type CredentialFault = 'missing' | 'several' | 'misplaced' | 'throttled' | TokenFault;

const unauthorized = (detail: string): RefusalReason => ({ code: 'UNAUTHORIZED', detail });

const FAULTS: Readonly<Record<Exclude<CredentialFault, SignedFault>, RefusalReason>> = {
  missing: unauthorized(''),
  several: { code: 'INVALID_QUERY', detail: 'a request has one token, in the Authorization header or once in the URL' },
  misplaced: unauthorized('a token in the URL opens reads; send others in the Authorization header'),
  throttled: { code: 'TOKEN_FAILURES', detail: '' },
  unknown: unauthorized('the token is not known'),
  expired: unauthorized('the token has expired'),
  revoked: unauthorized('the token was revoked'),
  oversized: unauthorized('the token is longer than a token may be'),
};

const NOT_FOR_URLS = unauthorized(
  'the token in the URL was not made for URLs, which logs keep: POST /__svc/tokens makes one',
);

const SIGNED_FAULTS: Readonly<Record<SignedFault, RefusalReason>> = {
  malformed: unauthorized('the token is no JWT, or a claim has the wrong type'),
  'not-yet-valid': unauthorized('the token is not valid yet (nbf)'),
  'unknown-key': unauthorized('the key of the token (kid) is not known'),
  'without-keys': { code: 'UNAVAILABLE', detail: 'the server with the keys of its issuer has not told its key yet' },
  'ambiguous-key': unauthorized('the token names no key (kid), and there are several'),
  'wrong-algorithm': unauthorized('the token has another algorithm than its key'),
  'wrong-signature': unauthorized('the signature of the token is wrong'),
  foreign: unauthorized('the token is of another issuer (iss), for others (aud), or without an end (exp)'),
  'without-id': unauthorized('the token has no id (jti or sub), or one that is too long'),
  'wrong-scopes': unauthorized('the scopes of the token are no list of scopes as a file of tokens has them'),
  'wrong-limits': unauthorized('the limits of the token are no table of limits as a file of tokens has them'),
  orphaned: unauthorized('the token from which this one was made is not valid any more, or allows less'),
  'only-for-urls': unauthorized('the token is for URLs (access_token) and not for the Authorization header'),
  'not-for-urls': NOT_FOR_URLS,
  'foreign-in-url': NOT_FOR_URLS,
};

function isSigned(fault: CredentialFault): fault is SignedFault {
  return Object.hasOwn(SIGNED_FAULTS, fault);
}

export function faultRefusal(fault: CredentialFault): RefusalReason {
  return isSigned(fault) ? SIGNED_FAULTS[fault] : FAULTS[fault];
}

/** Refusals of tokens, for the metrics. `invalid`: signed ones that are neither expired nor revoked. */
export type RefusedTokens = Record<Exclude<CredentialFault, SignedFault | 'several'> | 'invalid', number>;

const MISPLACED: ReadonlySet<CredentialFault> = new Set(['only-for-urls', 'not-for-urls', 'foreign-in-url'] as const);

export function countedAs(fault: CredentialFault): keyof RefusedTokens {
  if (fault === 'several' || MISPLACED.has(fault)) return 'misplaced';
  return isSigned(fault) ? 'invalid' : fault;
}
