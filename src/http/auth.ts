/** Bearer tokens (decisions.md "Security"). */

const SCHEME = 'bearer ';

/**
 * Does the Authorization header carry the token? The time taken depends on the length of what was sent and on nothing
 * else: every character is compared, also after a difference.
 */
export function isAuthorized(authorization: string, token: string): boolean {
  if (token === '') return true;
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return false;
  const sent = authorization.slice(SCHEME.length).trim();
  let difference = sent.length ^ token.length;
  for (let i = 0; i < sent.length; i++) difference |= sent.charCodeAt(i) ^ token.charCodeAt(i % token.length);
  return difference === 0;
}
