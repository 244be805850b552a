/**
 * A long answer in pieces, at the pace of its reader: the next piece is asked for when the last one has left, so one reader holds
 * about one piece. What waits counts with the answers that slow clients have not taken (unsent.ts).
 *
 * Once it has begun there is no status left to say that something failed: the connection is cut, and the client sees that the
 * chunked body has no end.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Operation } from './contract.ts';
import { type ResponseOwner, guardAbort, takeOver, whenWritable } from './guard.ts';
import type { Plane } from './plane.ts';
import type { Responder } from './respond.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { writeChunk } from './live/socket.ts';
import { type Unsent, unsentOf } from './unsent.ts';
import type { UwsResponse } from './uws.ts';

/** Well below the 10 s, less the granularity of 4 s, in which uWebSockets.js closes a connection that takes nothing (server.ts). */
const RENEWAL_MS = 3000;

export class Outpour implements ResponseOwner {
  readonly operation: Operation;
  readonly #plane: Plane;
  readonly #responder: Responder;
  readonly #startedMs: number;
  readonly #unsent: Unsent;
  readonly #renewal: NodeJS.Timeout | undefined;
  #res: UwsResponse | undefined;
  #begun = false;
  #status = 200;
  /** Bytes of the piece that waits for the socket, or of what is held until the next one. */
  #waitingBytes = 0;
  #next: (() => void) | undefined;
  /** Told once, when everything is over. */
  onOver: (() => void) | undefined;

  /**
   * `isPatient`: a reader may take nothing for as long as it likes. For operators: what waits for slow readers is bounded for all
   * of them together.
   */
  constructor(
    plane: Plane,
    res: UwsResponse,
    responder: Responder,
    operation: Operation,
    startedMs: number,
    isPatient = false,
  ) {
    this.#plane = plane;
    this.#responder = responder;
    this.operation = operation;
    this.#startedMs = startedMs;
    if (isPatient) this.#renewal = setInterval(() => this.#renew(), RENEWAL_MS).unref();
    this.#unsent = unsentOf(plane.ctx);
    this.#res = res;
    plane.open++;
    takeOver(
      res,
      this,
      guardAbort(plane.logError, this, () => this.#over()),
    );
  }

  /** Answered, cut, or the client is gone. */
  get isOver(): boolean {
    return this.#res === undefined;
  }

  /** Bytes that the next piece should have at most. */
  get pieceBytes(): number {
    return this.#unsent.readBytes(1024 * 1024);
  }

  /** Status, static headers, then those that `headers` writes. */
  begin(status: number, headers: (res: UwsResponse) => void): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#begun = true;
    this.#status = status;
    res.cork(() => {
      this.#responder.begin(res, status);
      headers(res);
    });
    whenWritable(res, this.#plane.logError, this, () => this.#writable());
  }

  /** `bytes` wait in memory until the next piece is written, for something else than the socket. */
  hold(bytes: number): void {
    this.#giveBack();
    if (this.#res === undefined) return;
    this.#waitingBytes = bytes;
    this.#unsent.usedBytes += bytes;
  }

  /** Writes one piece; `next` runs when it is time for another one. Its memory may be reused afterwards. */
  write(piece: Uint8Array | string, next: () => void): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#giveBack();
    // A chunk of no bytes would end the body.
    if (piece.length === 0) return next();
    if (writeChunk(res, typeof piece === 'string' ? encodeUtf8(piece) : piece)) return next();
    this.#waitingBytes = piece.length;
    this.#unsent.usedBytes += piece.length;
    this.#next = next;
  }

  /** The last piece has been written. */
  end(): void {
    const res = this.#res;
    if (res === undefined) return;
    res.cork(() => res.end());
    this.#finish();
  }

  /** A whole answer at once, in place of begin and what follows it. HEAD: `size` is what GET would bring, if that is known. */
  whole(status: number, headers: (res: UwsResponse) => void, body: Uint8Array | undefined, size?: number): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#status = status;
    res.cork(() => {
      this.#responder.begin(res, status);
      headers(res);
      if (status === 204 || this.#responder.headOnly) {
        if (size === undefined) res.endWithoutBody();
        else res.endWithoutBody(size);
      } else if (body === undefined) res.end();
      else this.#unsent.end(res, body);
    });
    this.#finish();
  }

  /** What a shard refused; a cut when the answer has begun. */
  refusal(reply: Reply): void {
    const res = this.#res;
    if (res === undefined) return;
    if (this.#begun) return this.cut();
    res.cork(() => {
      this.#status = this.#responder.refusal(res, 'bucketed', reply);
    });
    this.#finish();
  }

  fail(code: ErrorCode, detail?: string): void {
    const res = this.#res;
    if (res === undefined) return;
    if (this.#begun) return this.cut();
    res.cork(() => {
      this.#status = this.#responder.error(res, 'bucketed', code, detail);
    });
    this.#finish();
  }

  /** Part of the answer is out and the rest cannot come. */
  cut(): void {
    const res = this.#res;
    if (res === undefined) return;
    this.#over();
    res.close();
  }

  /** Runs what follows a reply: a bug in it is logged, and the answer ends. */
  guard(follow: () => void): void {
    if (this.#res === undefined) return;
    try {
      follow();
    } catch (error) {
      this.#plane.logError(error, this.operation);
      this.fail('INTERNAL');
    }
  }

  #writable(): boolean {
    this.#giveBack();
    const next = this.#next;
    this.#next = undefined;
    if (next !== undefined) this.guard(next);
    return true;
  }

  /** To be resumed begins the timeout anew, and is the only thing that does without a write. */
  #renew(): void {
    if (this.#next === undefined) return;
    this.#res?.pause();
    this.#res?.resume();
  }

  #giveBack(): void {
    this.#unsent.usedBytes -= this.#waitingBytes;
    this.#waitingBytes = 0;
  }

  #finish(): void {
    this.#plane.count(this.operation, this.#status, this.#startedMs);
    this.#over();
  }

  #over(): void {
    if (this.#res === undefined) return;
    clearInterval(this.#renewal);
    this.#res = undefined;
    this.#next = undefined;
    this.#giveBack();
    this.#plane.closed();
    this.onOver?.();
  }
}
