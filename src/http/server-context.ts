/** The state that requests share: on both planes of a node, and on one plane. */
import { SUBSCRIPTION_BODY_BYTES_MAX } from '../base/limits.ts';
import type { ErrorLog, ShardGateway, WriteGateway } from '../ports.ts';
import { type Request, newRequest } from '../protocol/request.ts';
import { ResponseBackpressure } from './backpressure.ts';
import { BodyBudget, SlowBodies } from '../access/bodies.ts';
import { GrantHolders } from '../access/grant-holders.ts';
import { LimitBook } from '../access/limit-book.ts';
import type { TokenBook } from '../access/token-book.ts';
import { Compression } from './compression.ts';
import type { PlaneKind } from '../audit/requests.ts';
import type { HttpContext, HttpSettings, RouteTraits } from './context.ts';
import { WriteHeaders } from './headers.ts';
import { Live } from './live/live.ts';
import { RequestIds } from '../audit/request-ids.ts';

/** Four requests of the largest size; usual ones take a few hundred bytes. */
const STRANGER_BYTES_MAX = 4 * SUBSCRIPTION_BODY_BYTES_MAX;

/** Kept for reuse: a few hundred bytes each. */
const KEPT_REQUESTS_MAX = 1024;

/**
 * Requests to shards, for commands that wait for their bodies. The usual body is there at once, so one
 * object, which the processor has at hand, serves all of them.
 */
export class SpareRequests {
  readonly #spare: Request[] = [];

  take(): Request {
    return this.#spare.pop() ?? newRequest();
  }

  give(request: Request): void {
    request.command.payload = undefined;
    request.command.attributes = undefined;
    if (this.#spare.length < KEPT_REQUESTS_MAX) this.#spare.push(request);
  }
}

/** The state that both planes of a node share: bounds over all of its requests, and its live readers. */
export class HttpNode {
  readonly ctx: HttpContext;
  readonly ids: RequestIds;
  readonly budget: BodyBudget;
  readonly backpressure: ResponseBackpressure;
  readonly compression: Compression;
  readonly live: Live;

  constructor(ctx: HttpContext) {
    this.ctx = ctx;
    this.ids = new RequestIds(ctx.requestIdPrefix);
    this.budget = new BodyBudget(ctx.settings.inflightBodyBytes);
    this.backpressure = new ResponseBackpressure(ctx.logError, this.ids);
    this.compression = new Compression(ctx.logError);
    this.live = new Live(ctx, this.backpressure);
  }
}

interface PlaneParts {
  readonly plane?: PlaneKind;
  readonly address?: string;
  /** With scopes or roles. */
  readonly tokens?: TokenBook | undefined;
}

/** The state that the requests of one plane share. */
export class HttpServerContext {
  readonly node: HttpNode;
  readonly ctx: HttpContext;
  readonly gateway: ShardGateway;
  readonly writes: WriteGateway;
  readonly settings: HttpSettings;
  readonly plane: PlaneKind;
  /** The host on which the plane listens, for traces. */
  readonly address: string;
  readonly ids: RequestIds;
  readonly budget: BodyBudget;
  readonly backpressure: ResponseBackpressure;
  /** For bodies of unauthenticated senders: they take no room from the others. */
  readonly strangers = new BodyBudget(STRANGER_BYTES_MAX);
  readonly slowBodies: SlowBodies;
  /** Live readers and sessions whose tokens have scopes or roles. */
  readonly holders: GrantHolders;
  /** The client plane's; operators have none. */
  readonly limits: LimitBook;
  readonly logError: ErrorLog;
  /** The headers of the request whose route handler runs. */
  readonly headers = new WriteHeaders();
  /** For queries: filled and sent in one go. */
  readonly query: Request = newRequest();
  readonly requests = new SpareRequests();
  /** Requests accepted and not answered, live readers excepted. */
  open = 0;
  closing = false;
  #idle: (() => void) | undefined;

  constructor(node: HttpNode, { plane = 'client', address = '', tokens }: PlaneParts = {}) {
    const { ctx } = node;
    this.node = node;
    this.ctx = ctx;
    this.plane = plane;
    this.address = address;
    this.gateway = ctx.gateway;
    this.writes = ctx.writes;
    this.settings = ctx.settings;
    this.holders = new GrantHolders((grant) => tokens?.holds(grant) === true);
    this.limits = (plane === 'client' ? ctx.limits : undefined) ?? new LimitBook();
    if (plane === 'client') this.limits.readers.free = () => node.live.free;
    this.ids = node.ids;
    this.budget = node.budget;
    this.backpressure = node.backpressure;
    this.slowBodies = new SlowBodies(() => ctx.monotonicMs());
    this.logError = ctx.logError;
  }

  /** A write with this condition and expected offset, or without them, may be sent. */
  takesCondition(condition: string, expectedOffset = -1): boolean {
    return (condition === '' && expectedOffset < 0) || this.ctx.understandsConditions();
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

  /** Counts one answer. */
  count(operation: RouteTraits['operation'], status: number, startedMs: number): void {
    this.ctx.metrics.response(operation, status, Math.round((this.ctx.monotonicMs() - startedMs) * 1000));
  }
}
