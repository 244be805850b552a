/**
 * One accepted request that waits for a shard: `res`, how to answer, and what was measured. It is the ReplyHandler that
 * goes with the request, so an answer needs no lookup and no promise.
 *
 * What is cheapest: an object with its callbacks bound once. uWebSockets.js takes functions (abort, data, cork), and
 * closures made for each request would cost three allocations and their survival through a minor collection. The append
 * path therefore keeps finished objects, callbacks and request fields included, and takes them again (append.ts); the
 * other routes make one object for each request and let it go.
 */
import type { ReplyHandler } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { Family, Operation } from './contract.ts';
import { type GuardedAbort, type ResponseOwner, guardAbort, takeOver } from './guard.ts';
import type { BodyBudget, Plane } from './plane.ts';
import type { Responder } from './respond.ts';
import type { UwsResponse } from './uws.ts';

/** The reply while its answer is written; valid only there. A module variable, so the cork callback needs no closure. */
let answering: Reply | undefined;

export abstract class Exchange implements ReplyHandler, ResponseOwner {
  readonly plane: Plane;
  operation: Operation = 'other';
  family: Family = 'bucketed';
  startedMs = 0;
  /** Set between open() and the end of the answer; undefined afterwards, so nothing can touch a dead response. */
  res: UwsResponse | undefined = undefined;
  responder: Responder | undefined = undefined;
  /** Handed to a shard: onReply will come. */
  sent = false;
  /** Where the bytes of the body are counted. */
  budget: BodyBudget;
  /** Bytes taken from it. */
  heldBytes = 0;

  readonly #abort: GuardedAbort;
  readonly #write = (): void => this.#writeReply();

  constructor(plane: Plane) {
    this.plane = plane;
    this.budget = plane.budget;
    this.#abort = guardAbort(plane.logError, this, () => this.#aborted());
  }

  /** Writes the whole answer and returns its status. Runs corked; `reply` is valid only inside. */
  protected abstract answer(res: UwsResponse, responder: Responder, reply: Reply): number;

  /** Everything is over: answered or aborted, and no reply will come. */
  protected finished(): void {}

  open(res: UwsResponse, responder: Responder, family: Family, operation: Operation, startedMs: number): void {
    this.res = res;
    this.responder = responder;
    this.family = family;
    this.operation = operation;
    this.startedMs = startedMs;
    this.sent = false;
    this.heldBytes = 0;
    this.plane.open++;
    takeOver(res, this, this.#abort);
  }

  /** Hands the request to the shard, or answers 503 at once. */
  send(request: Request, shard?: number): void {
    this.sent = this.plane.ctx.gateway.send(request, this, shard);
    if (!this.sent) this.fail('SHARD_BUSY');
  }

  onReply(reply: Reply): void {
    this.sent = false;
    if (this.res === undefined) return this.#over();
    answering = reply;
    this.res.cork(this.#write);
    answering = undefined;
  }

  /** Ends the request with a refusal that no shard gave. Harmless after the end. */
  fail(code: ErrorCode, detail?: string): void {
    const { res, responder } = this;
    if (res === undefined || responder === undefined) return;
    res.cork(() => this.done(responder.error(res, this.family, code, detail)));
  }

  /** The answer with `status` is written. */
  done(status: number): void {
    this.plane.count(this.operation, status, this.startedMs);
    this.res = undefined;
    if (!this.sent) this.#over();
  }

  /** Cuts the connection; `status` is what the metrics count. */
  close(status: number): void {
    const { res } = this;
    if (res === undefined) return;
    this.done(status);
    res.close();
  }

  /** A bug in answering: log it and cut the connection, because part of an answer may be out already. */
  crash(error: unknown): void {
    this.plane.logError(error, this.operation);
    const res = this.res;
    if (res === undefined) return;
    this.res = undefined;
    res.close();
    if (!this.sent) this.#over();
  }

  #writeReply(): void {
    const { res, responder } = this;
    if (res === undefined || responder === undefined || answering === undefined) return;
    try {
      this.done(this.answer(res, responder, answering));
    } catch (error) {
      this.crash(error);
    }
  }

  /** The client is gone. A reply that is on its way is dropped when it comes. */
  #aborted(): void {
    if (this.res === undefined) return;
    this.res = undefined;
    if (!this.sent) this.#over();
  }

  #over(): void {
    if (this.heldBytes > 0) this.budget.give(this.heldBytes);
    this.heldBytes = 0;
    this.responder = undefined;
    this.plane.closed();
    this.finished();
  }
}
