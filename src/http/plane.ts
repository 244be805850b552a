/** What the handlers of one listener share: the context, the budget of bodies in flight, and how many requests are open. */
import { BODY_BYTES_MAX, SUBSCRIPTION_BODY_BYTES_MAX } from '../base/limits.ts';
import { type Request, newRequest } from '../protocol/request.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { ErrorLog, Family, HttpContext, Operation } from './contract.ts';
import type { Responder } from './respond.ts';
import { SlowBodies } from './slow-bodies.ts';
import type { UwsRequest, UwsResponse } from './uws.ts';

/** What a plane does with a request whose method is not OPTIONS and whose sender may use it. */
export type Router = (
  res: UwsResponse,
  req: UwsRequest,
  method: string,
  responder: Responder,
  startedMs: number,
) => void;

/** Bytes of request bodies that this process holds or has handed to a shard without an answer yet; shared by the planes. */
export class BodyBudget {
  readonly limitBytes: number;
  usedBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  take(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false;
    this.usedBytes += bytes;
    return true;
  }

  /** Whether so many bytes would fit now. */
  hasRoom(bytes: number): boolean {
    return this.usedBytes + bytes <= this.limitBytes;
  }

  give(bytes: number): void {
    this.usedBytes -= bytes;
  }
}

/** Four requests of the largest size; usual ones take some hundred bytes. */
const STRANGER_BYTES_MAX = 4 * SUBSCRIPTION_BODY_BYTES_MAX;

export class Plane {
  readonly ctx: HttpContext;
  readonly budget: BodyBudget;
  /** Of bodies whose sender may be anybody: they take no room from the others. */
  readonly strangers = new BodyBudget(STRANGER_BYTES_MAX);
  readonly slowBodies: SlowBodies;
  readonly logError: ErrorLog;
  readonly bodyBytesMax = BODY_BYTES_MAX;
  /** For queries: filled and sent in one go. */
  readonly query: Request = newRequest();
  /** Requests accepted and not answered, live readers excepted. */
  open = 0;
  closing = false;
  #idle: (() => void) | undefined;

  constructor(ctx: HttpContext, budget: BodyBudget) {
    this.ctx = ctx;
    this.budget = budget;
    this.slowBodies = new SlowBodies(() => ctx.monotonicMs());
    this.logError = ctx.logError;
  }

  closed(): void {
    this.open--;
    if (this.open === 0) this.#idle?.();
  }

  /** Resolves when no request is open. */
  idle(): Promise<void> {
    if (this.open === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  /** Counts an answer that was given inside the route handler. */
  count(operation: Operation, status: number, startedMs: number): void {
    this.ctx.metrics.response(operation, status, Math.round((this.ctx.monotonicMs() - startedMs) * 1000));
  }

  /** Refuses inside the route handler, where the response is corked already. */
  refuse(
    res: UwsResponse,
    responder: Responder,
    family: Family,
    operation: Operation,
    startedMs: number,
    code: ErrorCode,
    detail?: string,
  ): void {
    this.count(operation, responder.error(res, family, code, detail), startedMs);
  }

  /** The shared query, set to a question about one stream. */
  streamQuery(op: number, group: number, bucket: string, stream: string): Request {
    const query = this.query;
    query.op = op;
    query.group = group;
    query.command.bucket = bucket;
    query.command.stream = stream;
    return query;
  }
}
