/** Tokens of pages that open a WebSocket. */

const BEARER = 'millrace.bearer.';

/** The members of a Sec-WebSocket-Protocol header. */
export function protocolsOf(header: string): string[] {
  return header.split(',').map((protocol) => protocol.trim());
}

/**
 * A page cannot set headers of a WebSocket, but it names protocols: one of them may be the token, percent-encoded where
 * a protocol's name could not have its characters. Empty: none is.
 */
export function authorizationOf(header: string): string {
  const sent = protocolsOf(header).find((protocol) => protocol.startsWith(BEARER));
  if (sent === undefined) return '';
  try {
    return `Bearer ${decodeURIComponent(sent.slice(BEARER.length))}`;
  } catch {
    return '';
  }
}
