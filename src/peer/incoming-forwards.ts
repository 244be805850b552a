/**
 * Requests that other nodes forward to this shard. A large one comes in pieces and is put together here, one at a time
 * for each session: that bounds the memory. A session that ends takes its unfinished request with it.
 */
import type { ForwardOrigin } from '../shard/ports.ts';
import { decodeForwardPiece, decodeForwards } from './codec/forward.ts';
import type { Session } from './listener.ts';

interface Unfinished {
  readonly correlation: number;
  readonly group: number;
  readonly bytes: Uint8Array;
  /** How many of them have arrived. */
  arrived: number;
}

interface RequestHandler {
  /** `bytes` are overwritten after the call. */
  onForward(origin: ForwardOrigin, group: number, bytes: Uint8Array): void;
}

export class IncomingForwards {
  readonly #handler: RequestHandler;
  readonly #hasGroup: (group: number) => boolean;
  readonly #unfinished = new Map<Session, Unfinished>();

  constructor(handler: RequestHandler, hasGroup: (group: number) => boolean) {
    this.#handler = handler;
    this.#hasGroup = hasGroup;
  }

  /** False: the frame is damaged, or about groups that are not here. */
  frame(session: Session, payload: Uint8Array): boolean {
    let owned = true;
    const good = decodeForwards(payload, (correlation, group, bytes) => {
      owned &&= this.#hasGroup(group);
      if (owned) this.#take(session, correlation, group, bytes);
    });
    return good && owned;
  }

  /** False also for a piece that does not continue the one before. */
  piece(session: Session, payload: Uint8Array): boolean {
    const piece = decodeForwardPiece(payload);
    if (piece === undefined || !this.#hasGroup(piece.group)) return false;
    const { correlation, group, totalBytes, at, bytes } = piece;
    let request = this.#unfinished.get(session);
    if (request === undefined) {
      if (at > 0) return false;
      // Its pages become memory when they are written, so a peer that only announces bytes gets none.
      request = { correlation, group, bytes: new Uint8Array(totalBytes), arrived: 0 };
      this.#unfinished.set(session, request);
    }
    const isSame = request.correlation === correlation && request.group === group;
    if (!isSame || request.bytes.length !== totalBytes || request.arrived !== at) return false;
    request.bytes.set(bytes, at);
    request.arrived += bytes.length;
    if (request.arrived < totalBytes) return true;
    this.#unfinished.delete(session);
    this.#take(session, correlation, group, request.bytes);
    return true;
  }

  onSessionEnd(session: Session): void {
    this.#unfinished.delete(session);
  }

  #take({ peer: { node, shard, boot } }: Session, correlation: number, group: number, bytes: Uint8Array): void {
    this.#handler.onForward({ node, shard, boot, correlation }, group, bytes);
  }
}
