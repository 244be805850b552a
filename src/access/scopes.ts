/**
 * Whether a token may do something: pure, and the only place that decides it. HTTP, sessions and subscriptions ask here.
 * Everything that no scope allows is refused. A stream of which nothing is in scope looks like one that is not there. Its
 * holder is told which operation is missing when the stream is in scope otherwise.
 */
import type { UseLimits } from '../base/use-limits.ts';
import { type OperatorRole, type Scope, type ScopedOperation, includesRole } from '../base/scopes.ts';

/** The rights of a valid token. Grants are compared as objects: a token whose rights change gets another one. */
export interface Grant {
  /** Names the token in messages; it is no secret. */
  readonly id: string;
  /** Infinity: it does not expire. */
  readonly expiresAtMs: number;
  readonly scopes: readonly Scope[];
  /** Only tokens of the admin plane have one, and no scopes. */
  readonly role?: OperatorRole;
  /** It comes in URLs and in nothing else, and reads what a link or an event stream reads. */
  readonly isForUrl?: true;
  /** Counts what it uses, where that is not its id: one that was made from another token is counted as that. */
  readonly account?: string;
  /** The subscriptions that count as its own follow nothing out of these, where they are not its scopes. */
  readonly share?: readonly Scope[];
  /** Limits that the token itself says. */
  readonly limits?: UseLimits;
}

/** `hidden`: nothing of it is in scope. `denied`: it is in scope, and the operation is not. */
export type ScopeDecision = 'allowed' | 'hidden' | 'denied';

export function isExpired({ expiresAtMs }: Grant, nowMs: number): boolean {
  return nowMs >= expiresAtMs;
}

/** A call of the admin plane. Undefined: it takes all rights. */
export function hasRole({ role }: Grant, needed: OperatorRole | undefined): boolean {
  return needed !== undefined && includesRole(role, needed);
}

/** An operation on one stream. */
export function decide({ scopes }: Grant, operation: ScopedOperation, bucket: string, stream: string): ScopeDecision {
  let decision: ScopeDecision = 'hidden';
  for (const scope of scopes) {
    if (!coversBucket(scope, bucket) || !coversStream(scope, stream)) continue;
    if (scope.operations.includes(operation)) return 'allowed';
    decision = 'denied';
  }
  return decision;
}

/** An operation on a bucket as a whole, which takes a scope over all of its streams. */
export function decideBucket({ scopes }: Grant, operation: ScopedOperation, bucket: string): ScopeDecision {
  let decision: ScopeDecision = 'hidden';
  for (const scope of scopes) {
    if (!coversBucket(scope, bucket)) continue;
    if (scope.streams === ALL && scope.operations.includes(operation)) return 'allowed';
    decision = 'denied';
  }
  return decision;
}

/** Names that begin alike, or one name. */
export interface NameRange {
  readonly prefix: string;
  /** Only the name that is the prefix itself. */
  readonly isExact: boolean;
}

/** The streams of a bucket on which the operation is allowed, without overlaps; empty: none. In no order. */
export function rangesOf({ scopes }: Grant, operation: ScopedOperation, bucket: string): NameRange[] {
  const ranges: NameRange[] = [];
  for (const scope of scopes) {
    if (!coversBucket(scope, bucket) || !scope.operations.includes(operation)) continue;
    const range = rangeOf(scope);
    if (ranges.some((other) => includes(other, range))) continue;
    const rest = ranges.filter((other) => !includes(range, other));
    ranges.splice(0, ranges.length, ...rest, range);
  }
  return ranges;
}

/** An operation on every stream of a bucket whose name begins with `prefix`; one scope must cover all of them. */
export function coversAll({ scopes }: Grant, operation: ScopedOperation, bucket: string, prefix: string): boolean {
  return scopes.some(
    (scope) =>
      coversBucket(scope, bucket) &&
      scope.operations.includes(operation) &&
      includes(rangeOf(scope), { prefix, isExact: false }),
  );
}

/** The buckets on which as a whole the operation is allowed, in no order; undefined: on every one. */
export function wholeBuckets(grant: Grant, operation: ScopedOperation): ReadonlySet<string> | undefined {
  if (coversEverything(grant, operation)) return undefined;
  const whole = grant.scopes.filter(({ streams, operations }) => streams === ALL && operations.includes(operation));
  return new Set(whole.map(({ bucket }) => bucket));
}

/** An operation on every stream of every bucket. */
export function coversEverything({ scopes }: Grant, operation: ScopedOperation): boolean {
  return scopes.some(
    ({ bucket, streams, operations }) => bucket === ALL && streams === ALL && operations.includes(operation),
  );
}

/** A right that one list of scopes has and another one has not. */
export interface ExcessRight {
  /** Where in the list. */
  readonly index: number;
  readonly operation: ScopedOperation;
}

/**
 * The first right of `inner` that no single scope of `outer` covers; undefined: whatever `inner` allows, `outer` allows.
 * Several scopes that cover it together are not enough.
 */
export function excessOf(outer: readonly Scope[], inner: readonly Scope[]): ExcessRight | undefined {
  for (const [index, scope] of inner.entries()) {
    const range = rangeOf(scope);
    const around = outer.filter((other) => coversBucket(other, scope.bucket) && includes(rangeOf(other), range));
    const operation = scope.operations.find((one) => !around.some(({ operations }) => operations.includes(one)));
    if (operation !== undefined) return { index, operation };
  }
  return undefined;
}

const ALL = '*';

function coversBucket({ bucket }: Scope, name: string): boolean {
  return bucket === name || bucket === ALL;
}

function coversStream({ stream, streams }: Scope, name: string): boolean {
  if (stream !== undefined) return stream === name;
  if (!streams.endsWith(ALL)) return streams === name;
  return name.startsWith(streams.slice(0, -1));
}

function rangeOf({ stream, streams }: Scope): NameRange {
  if (stream !== undefined) return { prefix: stream, isExact: true };
  return streams.endsWith(ALL) ? { prefix: streams.slice(0, -1), isExact: false } : { prefix: streams, isExact: true };
}

function includes(outer: NameRange, inner: NameRange): boolean {
  if (outer.isExact) return inner.isExact && inner.prefix === outer.prefix;
  return inner.prefix.startsWith(outer.prefix);
}
