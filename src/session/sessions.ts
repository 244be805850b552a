/** All sessions of a node: who gets one, and how they end when it stops. */
import { compareBytes, ownCopy } from '../base/bytes.ts';
import {
  SESSION_IDLE_SECONDS,
  SESSION_MESSAGE_BYTES_MAX,
  SESSION_UNSENT_BYTES_MAX,
  SESSIONS_MAX,
} from '../base/limits.ts';
import { senderOf } from '../http/audited.ts';
import type { SocketLimits } from '../http/guard.ts';
import type { RequestContext } from '../http/request.ts';
import type { SessionPort } from '../http/sockets.ts';
import { protocolsOf } from '../access/socket-tokens.ts';
import { Frame } from './frame.ts';
import { MessageWriter } from './messagepack.ts';
import { PROTOCOL, writeLeaders } from './messages.ts';
import { TailEvent } from './outbox.ts';
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
  readonly #tailEvent = new TailEvent();
  readonly #most: number;
  /** The message that tells of them; undefined: none was known yet. */
  #leaders: Uint8Array | undefined;
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
    const home = { server, frame: this.#frame, tailEvent: this.#tailEvent, leaders: () => this.#leaders, ended };
    const { requestId, credentials } = call;
    const session = new ClientSession(home, { requestId, credentials, sender: senderOf(call) });
    this.#open.add(session);
    sessions.open = this.#open.size;
    sessions.opened++;
    return call.upgrade(session, PROTOCOL);
  }

  /** `leaders`: where clients reach the leader of each group, as `self` is for this node; empty: unknown. */
  tellLeaders(self: string, leaders: readonly string[]): void {
    if (this.#leaders === undefined && leaders.every((leader) => leader === '')) return;
    const out = new MessageWriter();
    writeLeaders(out, self, leaders);
    if (this.#leaders !== undefined && compareBytes(out.written, this.#leaders) === 0) return;
    this.#leaders = ownCopy(out.written);
    for (const session of this.#open) session.tellLeaders();
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
