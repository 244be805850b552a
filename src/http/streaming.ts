/**
 * A long answer in pieces, at the pace of its reader: the next piece is asked for when the last one has left, so one
 * reader holds about one piece. What waits counts with the answers that slow clients have not taken (backpressure.ts).
 *
 * Once it has begun there is no status left to say that something failed: the connection is cut,
 * and the client sees that the chunked body has no end.
 */
import { encodeUtf8 } from '../base/utf8.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Spending } from './body.ts';
import type { ResponseBackpressure } from './backpressure.ts';
import { type ResponseOwner, whenWritable } from './guard.ts';
import type { Responder } from './response.ts';
import type { HttpServerContext } from './server-context.ts';
import type { UwsResponse } from './uws.ts';

/** Well below the 10 s, less the granularity of 4 s, in which uWebSockets.js closes what takes nothing (server.ts). */
const RENEWAL_MS = 3000;
/** A piece is larger when it is one message, or very many small ones with a head each. */
const PIECE_BYTES_MAX = 1024 * 1024;

/** The request that is answered. */
export interface ResponseHolder extends ResponseOwner {
  readonly server: HttpServerContext;
  readonly responder: Responder;
  readonly meters: Spending;
  /** Undefined: answered, cut, or the client is gone. */
  readonly res: UwsResponse | undefined;
  done(status: number): void;
  cut(): void;
  refuseReply(reply: Reply): void;
  refuse(code: ErrorCode, detail?: string): void;
  guard(follow: () => void): void;
}

export interface StreamOptions {
  /** Readers may take nothing for as long as they like. For operators: what waits for all of them is bounded. */
  readonly isPatient?: boolean;
}

/** How an answer begins. */
export interface StreamHead {
  readonly status: number;
  /** Writes the headers behind the static ones. */
  readonly headers: (res: UwsResponse) => void;
}

export class StreamingResponse {
  readonly #holder: ResponseHolder;
  readonly #backpressure: ResponseBackpressure;
  readonly #renewal: NodeJS.Timeout | undefined;
  #begun = false;
  #status = 200;
  /** Bytes of the piece that waits for the socket, or of what is held until the next one. */
  #waitingBytes = 0;
  #next: (() => void) | undefined;
  /** Called once, when everything is over. */
  onOver: (() => void) | undefined;

  constructor(holder: ResponseHolder, options?: StreamOptions) {
    this.#holder = holder;
    this.#backpressure = holder.server.backpressure;
    if (options?.isPatient === true) this.#renewal = setInterval(() => this.#renew(), RENEWAL_MS).unref();
  }

  /** Answered, cut, or the client is gone. */
  get isOver(): boolean {
    return this.#holder.res === undefined;
  }

  /** The status is out. */
  get isBegun(): boolean {
    return this.#begun;
  }

  /** Bytes that the next piece should have at most. */
  get pieceBytes(): number {
    return this.#backpressure.readBytes(PIECE_BYTES_MAX);
  }

  begin({ status, headers }: StreamHead): void {
    const { res, responder, server } = this.#holder;
    if (res === undefined) return;
    this.#begun = true;
    this.#status = status;
    res.cork(() => {
      responder.begin(res, status);
      headers(res);
    });
    whenWritable(res, server.logError, this.#holder, () => this.#writable());
  }

  /** `bytes` wait in memory until the next piece is written, for something else than the socket. */
  hold(bytes: number): void {
    this.#giveBack();
    if (this.isOver) return;
    this.#waitingBytes = bytes;
    this.#backpressure.usedBytes += bytes;
  }

  /** Writes one piece; `next` runs when it is time for another one. Its memory may be reused afterwards. */
  write(piece: Uint8Array | string, next: () => void): void {
    const { res } = this.#holder;
    if (res === undefined) return;
    this.#giveBack();
    // A chunk of no bytes would end the body.
    if (piece.length === 0) return next();
    const isTooMuch = piece.length > PIECE_BYTES_MAX && !this.#backpressure.hasRoom(piece.length);
    if (isTooMuch && this.#renewal === undefined) return this.cut();
    this.#holder.meters.spend(piece.length);
    if (this.#backpressure.writePiece(res, typeof piece === 'string' ? encodeUtf8(piece) : piece)) return next();
    this.#waitingBytes = piece.length;
    this.#backpressure.usedBytes += piece.length;
    this.#next = next;
  }

  /** Writes a piece like write(). The promise settles when it is time for another piece, and never after the end. */
  put(piece: Uint8Array | string): Promise<void> {
    return new Promise((resolve) => this.write(piece, resolve));
  }

  /** The last piece has been written. */
  end(): void {
    const { res } = this.#holder;
    if (res === undefined) return;
    res.cork(() => res.end());
    this.#holder.done(this.#status);
  }

  /** A whole answer at once, in place of begin and what follows it. HEAD: `size` is what GET would bring, if known. */
  whole({ status, headers }: StreamHead, body: Uint8Array | undefined, size?: number): void {
    const { res, responder, meters } = this.#holder;
    if (res === undefined) return;
    meters.spend(body?.length ?? 0);
    res.cork(() => {
      responder.begin(res, status);
      headers(res);
      if (status === 204 || responder.headOnly) {
        if (size === undefined) res.endWithoutBody();
        else res.endWithoutBody(size);
      } else if (body === undefined) res.end();
      else this.#backpressure.end(res, body);
    });
    this.#holder.done(status);
  }

  /** Ends it with the refusal of a shard; cuts an answer that has begun. */
  refusal(reply: Reply): void {
    if (this.#begun) this.cut();
    else this.#holder.refuseReply(reply);
  }

  /** A refusal, or a cut when the answer has begun. */
  fail(code: ErrorCode, detail?: string): void {
    if (this.#begun) this.cut();
    else this.#holder.refuse(code, detail);
  }

  /** Part of the answer is out and the rest cannot come. */
  cut(): void {
    this.#holder.cut();
  }

  /** The request is over. */
  release(): void {
    clearInterval(this.#renewal);
    this.#next = undefined;
    this.#giveBack();
    this.onOver?.();
  }

  #writable(): boolean {
    this.#giveBack();
    const next = this.#next;
    this.#next = undefined;
    if (next !== undefined) this.#holder.guard(next);
    return true;
  }

  /** Resuming restarts the timeout. Nothing else does so without a write. */
  #renew(): void {
    if (this.#next === undefined) return;
    this.#holder.res?.pause();
    this.#holder.res?.resume();
  }

  #giveBack(): void {
    this.#backpressure.usedBytes -= this.#waitingBytes;
    this.#waitingBytes = 0;
  }
}
