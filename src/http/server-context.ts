/** What the requests of one listener share: the node's services, the budget of bodies in flight, and how many requests are open. */
import { BODY_BYTES_MAX, SUBSCRIPTION_BODY_BYTES_MAX } from '../base/limits.ts';
import { type Request, newRequest } from '../protocol/request.ts';
import type { ShardGateway } from '../ports.ts';
import type { ErrorLog, HttpContext, HttpSettings, Operation } from './contract.ts';

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

export class HttpServerContext {
  readonly ctx: HttpContext;
  readonly gateway: ShardGateway;
  readonly settings: HttpSettings;
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
    this.gateway = ctx.gateway;
    this.settings = ctx.settings;
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

  /** Counts one answer. */
  count(operation: Operation, status: number, startedMs: number): void {
    this.ctx.metrics.response(operation, status, Math.round((this.ctx.monotonicMs() - startedMs) * 1000));
  }
}

/** 32 MiB over 1 Mbit/s take four and a half minutes. */
const BODY_MS_MAX = 300_000;
/** A body may take so much longer. */
const SWEEP_MS = 5000;

interface SlowBody {
  /** Ends the request and its connection. */
  cutOff(): void;
}

/**
 * Bodies that are on their way, and how long for. Half a body holds memory and a place in the budget; a sender that drips just fast
 * enough for the library (160 KiB in 10 s) would hold 32 MiB for half an hour.
 */
export class SlowBodies {
  readonly #clockMs: () => number;
  /** When the first piece came; the longest ago is the first. */
  readonly #since = new Map<SlowBody, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(clockMs: () => number) {
    this.#clockMs = clockMs;
  }

  get size(): number {
    return this.#since.size;
  }

  /** Its first piece came, and it was not all. */
  add(body: SlowBody): void {
    this.#since.set(body, this.#clockMs());
    this.#timer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  /** Complete, refused or gone. */
  delete(body: SlowBody): void {
    // Most of the time there is none, and every request comes by.
    if (this.#since.size === 0 || !this.#since.delete(body) || this.#since.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  sweep(): void {
    const latestMs = this.#clockMs() - BODY_MS_MAX;
    for (const [body, sinceMs] of this.#since) {
      if (sinceMs > latestMs) return;
      this.delete(body);
      body.cutOff();
    }
  }
}
