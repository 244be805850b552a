/** Requests for a WebSocket, as far as HTTP knows them: the port of what is spoken there, and tokens of browsers. */
import type { SocketLimits } from './guard.ts';
import type { RequestContext } from './request.ts';

/** Sessions of the client plane (session/). */
export interface SessionPort {
  readonly limits: SocketLimits;
  /** Makes a session of the request, or refuses it. */
  handle(call: RequestContext): void;
  /** Tells every client to open another session. One ends when what it has asked is answered. */
  stop(): void;
  /** Resolves when no session is open. */
  idle(): Promise<void>;
}

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
