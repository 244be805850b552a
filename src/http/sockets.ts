/** Requests for a WebSocket, as far as HTTP knows them: the port of what is spoken there. */
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
