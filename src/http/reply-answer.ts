/** Turns the reply of a shard into an answer without a look-up, a promise or an allocation for each request. */
import type { ErrorLog } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Spending } from './body.ts';
import type { RouteFamily } from './context.ts';
import type { ResponseOwner } from './guard.ts';
import type { Responder } from './response.ts';
import type { UwsResponse } from './uws.ts';

/** Turns replies of a shard into the answer. A route without state of its own has one for all requests. */
export interface Renderer<Call> {
  /** Writes the whole answer and returns its status. Runs corked; `reply` is valid only inside, and no refusal. */
  render(call: Call, res: UwsResponse, reply: Reply): number;
  /** A refusal that is shown differently here; undefined: this one is not. */
  renderRefusal?(call: Call, res: UwsResponse, reply: Reply): number | undefined;
  /** Before that, and also when the client is gone. True: the answer waits for another question, or for deliver(). */
  intercept?(call: Call, reply: Reply): boolean;
}

/** The request that is answered. */
interface Asked extends ResponseOwner {
  readonly server: { readonly logError: ErrorLog };
  readonly family: RouteFamily;
  readonly responder: Responder;
  readonly meters: Spending;
  /** Undefined once the request is answered or its client is gone. */
  readonly res: UwsResponse | undefined;
  done(status: number): void;
  /** Logs the error and answers 500, if the client is still there. */
  crash(error: unknown): void;
  cut(): void;
  /** Called when the request waits for nothing any more. */
  over(): void;
}

export class ReplyAnswer<Call extends Asked> {
  /** True between a question to a shard and its reply. */
  isAwaited = false;
  renderer: Renderer<Call> | undefined = undefined;
  readonly #call: Call;
  /** The reply that is being written; undefined at other times. */
  #reply: Reply | undefined = undefined;
  /** The callback for `cork`, made once because the library takes a function. */
  readonly #corked = (): void => this.#write();

  constructor(call: Call) {
    this.#call = call;
  }

  take(reply: Reply): void {
    try {
      if (this.renderer?.intercept?.(this.#call, reply) === true) return;
    } catch (error) {
      // It may have asked again before it threw, so the call still counts as awaited and serves no other request.
      return this.#call.crash(error);
    }
    return this.deliver(reply);
  }

  /** Writes the answer to `reply`, if the client is still there. */
  deliver(reply: Reply): void {
    this.isAwaited = false;
    const { res } = this.#call;
    if (res === undefined) return this.#call.over();
    if (reply.body !== undefined) this.#call.meters.spend(reply.body.length);
    this.#reply = reply;
    res.cork(this.#corked);
    this.#reply = undefined;
  }

  #write(): void {
    const call = this.#call;
    const { res } = call;
    const reply = this.#reply;
    const { renderer } = this;
    if (res === undefined || reply === undefined || renderer === undefined) return;
    try {
      if (reply.code === 0) call.done(renderer.render(call, res, reply));
      else {
        const status = renderer.renderRefusal?.(call, res, reply);
        call.done(status ?? call.responder.refusal(res, call.family, reply));
      }
    } catch (error) {
      // Part of an answer may be out already.
      call.server.logError(error, call.operation, call.requestId);
      call.cut();
    }
  }
}
