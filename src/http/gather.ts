/** A request that is answered from several replies: keeps the response until the parts are merged. */
import type { ErrorCode } from '../base/errors.ts';
import type { Operation } from './contract.ts';
import { type ResponseOwner, guardAbort, takeOver } from './guard.ts';
import type { Plane } from './plane.ts';
import { JSON_TYPE, type Responder, TEXT_PLAIN } from './respond.ts';
import type { UwsResponse } from './uws.ts';

export class Gathering implements ResponseOwner {
  readonly operation: Operation;
  readonly #plane: Plane;
  readonly #responder: Responder;
  readonly #startedMs: number;
  #res: UwsResponse | undefined;

  constructor(plane: Plane, res: UwsResponse, responder: Responder, operation: Operation, startedMs: number) {
    this.#plane = plane;
    this.#responder = responder;
    this.operation = operation;
    this.#startedMs = startedMs;
    this.#res = res;
    plane.open++;
    takeOver(
      res,
      this,
      guardAbort(plane.logError, this, () => this.#over()),
    );
  }

  /** Answered, or the client is gone. */
  get isOver(): boolean {
    return this.#res === undefined;
  }

  json(status: number, value: unknown): void {
    this.#write(status, (res) => this.#responder.json(res, status, JSON.stringify(value)));
  }

  /** JSON on one line each for people with curl, and a Retry-After for machines. */
  unavailable(value: unknown): void {
    this.#write(503, (res) => {
      this.#responder.begin(res, 503);
      res.writeHeader('retry-after', '1');
      res.writeHeader('content-type', JSON_TYPE);
      this.#responder.end(res, JSON.stringify(value));
    });
  }

  /** A sentence that stands in no table. */
  text(status: number, sentence: string): void {
    this.#write(status, (res) => this.#responder.text(res, status, sentence));
  }

  /** The client is gone, says another handler of that. */
  aborted(): void {
    this.#over();
  }

  empty(status: 200 | 201 | 204): void {
    this.#write(status, (res) => {
      this.#responder.begin(res, status);
      if (status === 204) res.endWithoutBody();
      else res.writeHeader('content-type', TEXT_PLAIN).end();
    });
  }

  refuse(code: ErrorCode, detail?: string): void {
    const res = this.#res;
    if (res === undefined) return;
    res.cork(() => {
      const status = this.#responder.error(res, 'bucketed', code, detail);
      this.#finish(status);
    });
  }

  fail(code: ErrorCode): void {
    this.refuse(code);
  }

  /** Runs a merge: a bug in it is logged and answered with 500. */
  guard(merge: () => void): void {
    if (this.#res === undefined) return;
    try {
      merge();
    } catch (error) {
      this.#plane.logError(error, this.operation);
      this.refuse('INTERNAL');
    }
  }

  #write(status: number, write: (res: UwsResponse) => void): void {
    const res = this.#res;
    if (res === undefined) return;
    res.cork(() => {
      write(res);
      this.#finish(status);
    });
  }

  #finish(status: number): void {
    this.#plane.count(this.operation, status, this.#startedMs);
    this.#over();
  }

  #over(): void {
    if (this.#res === undefined) return;
    this.#res = undefined;
    this.#plane.closed();
  }
}
