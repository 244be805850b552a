/**
 * The subscriptions that a token with scopes may make and see. One lasts and follows streams that do not exist yet, so its
 * holder must be allowed to subscribe to and to read all that its pattern can ever match.
 */
import type { Credentials } from '../access/admission.ts';
import type { LimitBook } from '../access/limit-book.ts';
import { type Grant, coversAll, coversEverything, decide } from '../access/scopes.ts';
import { Glob } from '../base/glob.ts';
import type { ScopedOperation } from '../base/scopes.ts';
import { splitFlatPath } from '../protocol/flat-path.ts';
import type { ControlRights, Followed } from '../subscriptions/ports.ts';

const FOLLOWS: readonly ScopedOperation[] = ['subscribe', 'read'];

/** For a route whose receivers bring tokens of their own: such a sender has no other rights. */
const UNBOUNDED = { made: () => undefined };
const NONE: ControlRights = { follows: () => false, appends: () => false, makesOneMore: () => UNBOUNDED };

/** Undefined: all rights. */
export function controlRights(credentials: Credentials, limits: LimitBook): ControlRights | undefined {
  if (credentials === 'all' || credentials === 'open') return undefined;
  return typeof credentials === 'string' ? NONE : new GrantedRights(credentials, limits);
}

class GrantedRights implements ControlRights {
  readonly #grant: Grant;
  readonly #limits: LimitBook;

  constructor(grant: Grant, limits: LimitBook) {
    this.#grant = grant;
    this.#limits = limits;
  }

  /** All that follow nothing but what it may count as its own: the log of subscriptions does not say who made them. */
  makesOneMore(id: string, all: ReadonlyMap<string, Followed>): ReturnType<ControlRights['makesOneMore']> {
    const meter = this.#limits.ofToken(this.#grant);
    const most = meter?.allowance.subscriptions;
    if (meter === undefined || most === undefined) return UNBOUNDED;
    const { share: scopes = this.#grant.scopes } = this.#grant;
    const own = new GrantedRights({ ...this.#grant, scopes }, this.#limits);
    const decided = this.#limits.decidedBy(scopes);
    let there = 0;
    for (const { config } of all.values()) {
      if (own.#counts(config, decided)) there++;
      if (there >= most) break;
    }
    return meter.makeSubscription(id, there, all);
  }

  /** One may follow ten thousand streams, and each PUT asks about all of them. */
  #counts(config: Followed['config'], decided: WeakMap<object, boolean>): boolean {
    const known = decided.get(config);
    if (known !== undefined) return known;
    const { pattern, streams } = config;
    // Most are of others. One look says so, which is not worth the memory.
    if (pattern === null && streams[0] !== undefined && !this.#allows('subscribe', streams[0])) return false;
    const counts = this.follows(pattern, streams);
    decided.set(config, counts);
    return counts;
  }

  follows(pattern: string | null, paths: readonly string[]): boolean {
    return FOLLOWS.every((operation) => this.#covers(operation, pattern, paths));
  }

  appends(path: string): boolean {
    return this.#allows('append', path);
  }

  #covers(operation: ScopedOperation, pattern: string | null, paths: readonly string[]): boolean {
    // A subscription to nothing is in the scopes of no token.
    if (pattern === null && paths.length === 0) return false;
    if (pattern !== null && !this.#coversPattern(operation, pattern)) return false;
    return paths.every((path) => this.#allows(operation, path));
  }

  #allows(operation: ScopedOperation, path: string): boolean {
    const { bucket, stream } = splitFlatPath(path);
    return decide(this.#grant, operation, bucket, stream) === 'allowed';
  }

  /** All that begins with the segments before the first wildcard, which is at least what the pattern matches. */
  #coversPattern(operation: ScopedOperation, pattern: string): boolean {
    const front = new Glob(pattern).literalFront;
    const path = front.join('/');
    if (path === pattern) return this.#allows(operation, path);
    const [bucket, ...names] = front;
    if (bucket === undefined) return coversEverything(this.#grant, operation);
    const prefix = names.map((name) => `${name}/`).join('');
    if (!coversAll(this.#grant, operation, bucket, prefix)) return false;
    // `**` stands for no segment, too: `a/**` matches the stream `a` of the default bucket.
    const rest = pattern.slice(path.length + 1).split('/');
    return rest.some((segment) => segment !== '**') || this.#allows(operation, path);
  }
}
