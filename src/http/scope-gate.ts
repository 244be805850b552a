/**
 * The one layer at which a token with scopes or a role is held against a request: between the route and its handler,
 * behind the reading of the path and before any byte of a body. Each row says what it needs: a right on the client plane,
 * a role on the admin plane. A row that says nothing refuses such a token. Sessions, with frames for routes, ask the same.
 */
import type { Credentials } from '../access/admission.ts';
import { type ScopeDecision, type Grant, decide, decideBucket, hasRole, rangesOf } from '../access/scopes.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { ScopedOperation } from '../base/scopes.ts';
import type { Right, RouteTraits } from './context.ts';
import type { RequestContext } from './request.ts';
import { parseFork } from './routes/streams.ts';

export interface ScopeRefusal {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** The subject of a request: a stream, or without one a bucket. */
interface Target {
  readonly bucket: string;
  readonly stream?: string;
}

/** The answer to a token with scopes that may not do this; undefined: it may. */
export function scopeRefusal(call: RequestContext, row: RouteTraits): ScopeRefusal | undefined {
  const { credentials } = call;
  if (credentials === 'all' || credentials === 'open') return undefined;
  if (row.access === 'open' || row.access === 'probe') return undefined;
  // Admission has refused it before. A sender that comes here by another way has no rights either.
  if (typeof credentials === 'string') return { code: 'UNAUTHORIZED', detail: '' };
  const refusal =
    credentials.role === undefined
      ? (linkRefusal(row, credentials) ?? refusalOf(call, row.right, credentials))
      : roleRefusal(credentials, row);
  if (refusal !== undefined) countRefusal(call.server.ctx.metrics.access, refusal.code);
  return refusal;
}

function linkRefusal({ takesUrlToken }: RouteTraits, { isForUrl }: Grant): ScopeRefusal | undefined {
  if (isForUrl !== true || takesUrlToken === true) return undefined;
  const detail = 'a token in the URL reads streams, snapshots and bootstrap; send others in the Authorization header';
  return { code: 'INSUFFICIENT_SCOPE', detail };
}

interface ScopeCounters {
  denied: number;
  hidden: number;
}

export function countRefusal(counters: ScopeCounters, code: ErrorCode): void {
  if (code === 'INSUFFICIENT_SCOPE') counters.denied++;
  else counters.hidden++;
}

function roleRefusal(grant: Grant, { role }: RouteTraits): ScopeRefusal | undefined {
  if (hasRole(grant, role)) return undefined;
  const needed = role === undefined ? 'a token with all rights' : `the role ${role}`;
  return { code: 'INSUFFICIENT_SCOPE', detail: `this takes ${needed}, and ${shown(grant.id)} has ${grant.role}` };
}

function refusalOf(call: RequestContext, right: Right | undefined, grant: Grant): ScopeRefusal | undefined {
  if (right === undefined)
    return {
      code: 'INSUFFICIENT_SCOPE',
      detail: `this takes a token with all rights, and ${shown(grant.id)} has scopes`,
    };
  if (right === 'any') return undefined;
  const { bucket, stream } = call;
  const { on, operation } = right;
  if (on === 'bucket')
    return refusedAs(decideBucket(grant, operation, bucket), 'BUCKET_NOT_FOUND', operation, { bucket });
  if (on === 'listing') return listingRefusal(grant, operation, bucket);
  const refusal = streamRefusal(grant, operation, bucket, stream);
  return refusal ?? (operation === 'create' ? sourceRefusal(call, grant) : undefined);
}

/** The same for a frame of a session. */
export function streamRefusal(
  grant: Grant,
  operation: ScopedOperation,
  bucket: string,
  stream: string,
): ScopeRefusal | undefined {
  return refusedAs(decide(grant, operation, bucket, stream), 'STREAM_NOT_FOUND', operation, { bucket, stream });
}

/** The handler lists what the scopes cover and nothing else: a bucket out of scope is as empty as one that is not there. */
function listingRefusal(grant: Grant, operation: ScopedOperation, bucket: string): ScopeRefusal | undefined {
  if (rangesOf(grant, operation, bucket).length > 0) return undefined;
  const decision = decideBucket(grant, operation, bucket);
  return decision === 'denied' ? refusedAs(decision, 'BUCKET_NOT_FOUND', operation, { bucket }) : undefined;
}

/** A fork shows all that its source holds. What the handler makes of the headers is what is looked at here. */
function sourceRefusal({ headers }: RequestContext, grant: Grant): ScopeRefusal | undefined {
  if (headers.forkedFrom === undefined) return undefined;
  const fork = parseFork(headers);
  if (!fork.ok || fork.request === undefined) return undefined;
  const { bucket, stream } = fork.request;
  return refusedAs(decide(grant, 'read', bucket, stream), 'FORK_SOURCE_NOT_FOUND', 'read', { bucket, stream });
}

function refusedAs(
  decision: ScopeDecision,
  hidden: ErrorCode,
  operation: ScopedOperation,
  { bucket, stream }: Target,
): ScopeRefusal | undefined {
  if (decision === 'allowed') return undefined;
  if (decision === 'hidden') return { code: hidden, detail: '' };
  const what = stream === undefined ? `the whole bucket ${shown(bucket)}` : shown(`${bucket}/${stream}`);
  return { code: 'INSUFFICIENT_SCOPE', detail: `${operation} on ${what} is not in its scopes` };
}

const SHOWN_CHARS_MAX = 120;

/** Names hold any characters, and this is a line of text. */
function shown(name: string): string {
  return JSON.stringify(name.length > SHOWN_CHARS_MAX ? `${name.slice(0, SHOWN_CHARS_MAX)}...` : name);
}

/** The grant of a token with scopes; undefined: no scope bounds what is shown. Throws for a sender that has none. */
export function grantOf(credentials: Credentials): Grant | undefined {
  if (credentials === 'all' || credentials === 'open') return undefined;
  if (typeof credentials === 'string') throw new Error('a request without credentials got as far as a handler');
  return credentials.role === undefined ? credentials : undefined;
}
