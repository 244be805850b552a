/** All sessions of a node: who gets one, and how they end when it stops. */
import {
  SESSION_IDLE_SECONDS,
  SESSION_MESSAGE_BYTES_MAX,
  SESSION_UNSENT_BYTES_MAX,
  SESSIONS_MAX,
} from '../base/limits.ts';
import type { SocketLimits } from '../http/guard.ts';
import type { RequestContext } from '../http/request.ts';
import { type SessionPort, protocolsOf } from '../http/sockets.ts';
import { Frame } from './frame.ts';
import { PROTOCOL } from './messages.ts';
import { ClientSession } from './session.ts';

/** The only one that RFC 6455 knows. */
const WEBSOCKET_VERSION = '13';

export class Sessions implements SessionPort {
  readonly limits: SocketLimits = {
    maxPayloadLength: SESSION_MESSAGE_BYTES_MAX,
    maxBackpressure: SESSION_UNSENT_BYTES_MAX,
    closeOnBackpressureLimit: true,
    idleTimeout: SESSION_IDLE_SECONDS,
    sendPingsAutomatically: true,
  };
  readonly #open = new Set<ClientSession>();
  readonly #frame = new Frame();
  readonly #most: number;
  #idle: (() => void) | undefined;

  /** `most`: so many may be open at once. */
  constructor(most = SESSIONS_MAX) {
    this.#most = most;
  }

  handle(call: RequestContext): void {
    const { req, server } = call;
    // The library looks at the key alone. A proxy that keeps Upgrade to itself would take what follows for an answer.
    const asksForSocket = req.getHeader('upgrade').toLowerCase() === 'websocket';
    if (call.handshake === undefined || !asksForSocket) return call.refuse('UPGRADE_REQUIRED');
    if (req.getHeader('sec-websocket-version') !== WEBSOCKET_VERSION) {
      return call.refuse('INVALID_HEADER', `Sec-WebSocket-Version must be ${WEBSOCKET_VERSION}`);
    }
    if (!protocolsOf(req.getHeader('sec-websocket-protocol')).includes(PROTOCOL)) {
      return call.refuse('INVALID_HEADER', `Sec-WebSocket-Protocol must name ${PROTOCOL}`);
    }
    const { sessions } = server.ctx.metrics;
    if (this.#open.size >= this.#most) {
      sessions.refused++;
      return call.refuse('SESSIONS_FULL');
    }
    const ended = (session: ClientSession): void => {
      this.#open.delete(session);
      sessions.open = this.#open.size;
      if (this.#open.size === 0) this.#idle?.();
    };
    const session = new ClientSession({ server, frame: this.#frame, ended }, call.requestId);
    this.#open.add(session);
    sessions.open = this.#open.size;
    sessions.opened++;
    return call.upgrade(session, PROTOCOL);
  }

  stop(): void {
    for (const session of [...this.#open]) session.goAway();
  }

  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }
}
