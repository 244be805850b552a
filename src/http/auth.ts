/** Bearer tokens. */
import { timingSafeEqual } from 'node:crypto';

const SCHEME = 'bearer ';

/**
 * Does the Authorization header carry the token? The time taken depends on the length of what was sent and on nothing else.
 */
export function isAuthorized(authorization: string, token: string): boolean {
  if (token === '') return true;
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return false;
  const sent = Buffer.from(authorization.slice(SCHEME.length).trim(), 'utf8');
  const right = Buffer.from(token, 'utf8');
  // Of equal length, so that a comparison takes place in either case.
  return sent.length === right.length ? timingSafeEqual(sent, right) : !timingSafeEqual(right, right);
}
