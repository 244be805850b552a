/**
 * The one layer at which a token with scopes or a role is held against a request: between the route and its handler,
 * behind the reading of the path and before any byte of a body. Each row says what it needs: a right on the client plane,
 * a role on the admin plane. A row that says nothing refuses such a token. Sessions, with frames for routes, ask the same.
 */
import type { Credentials } from '../access/admission.ts';
import {
  bucketRefusal,
  listingRefusal,
  roleRefusal,
  scopelessRefusal,
  sourceRefusal,
  streamRefusal,
} from '../access/scope-refusals.ts';
import { type Grant, rangesOf } from '../access/scopes.ts';
import type { ErrorCode, RefusalReason } from '../base/errors.ts';
import type { Right, RouteTraits } from './context.ts';
import type { RequestContext } from './request.ts';
import { parseFork } from './routes/streams.ts';

/** The answer to a token with scopes that may not do this; undefined: it may. */
export function scopeRefusal(call: RequestContext, row: RouteTraits): RefusalReason | undefined {
  const { credentials } = call;
  if (credentials === 'all' || credentials === 'open') return undefined;
  if (row.access === 'open' || row.access === 'probe') return undefined;
  // Admission has refused it before. A sender that comes here by another way has no rights either.
  if (typeof credentials === 'string') return { code: 'UNAUTHORIZED', detail: '' };
  const refusal =
    credentials.role === undefined
      ? (linkRefusal(row, credentials) ?? refusalOf(call, row.right, credentials))
      : roleRefusal(credentials, row.role);
  if (refusal !== undefined) countRefusal(call.server.ctx.metrics.access, refusal.code);
  return refusal;
}

function linkRefusal({ takesUrlToken }: RouteTraits, { isForUrl }: Grant): RefusalReason | undefined {
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

function refusalOf(call: RequestContext, right: Right | undefined, grant: Grant): RefusalReason | undefined {
  if (right === undefined) return scopelessRefusal(grant);
  if (right === 'any') return undefined;
  const { bucket, stream } = call;
  const { on, operation } = right;
  if (on === 'bucket') return bucketRefusal(grant, operation, bucket);
  if (on === 'listing') return listingRefusal(grant, operation, bucket);
  const refusal = streamRefusal(grant, operation, bucket, stream);
  return refusal ?? (operation === 'create' ? forkRefusal(call, grant) : undefined);
}

/** The bucket whose limits the request uses. An empty listing of one that is out of scope may use up nothing of it. */
export function bucketUsed({ credentials, bucket }: RequestContext, { right }: RouteTraits): string {
  if (typeof credentials !== 'object' || typeof right !== 'object' || right.on !== 'listing') return bucket;
  return rangesOf(credentials, right.operation, bucket).length > 0 ? bucket : '';
}

/** The headers are read as the handler reads them. */
function forkRefusal({ headers }: RequestContext, grant: Grant): RefusalReason | undefined {
  if (headers.forkedFrom === undefined) return undefined;
  const fork = parseFork(headers);
  if (!fork.ok || fork.request === undefined) return undefined;
  return sourceRefusal(grant, fork.request.bucket, fork.request.stream);
}

/** The grant of a token with scopes; undefined: no scope bounds what is shown. Throws for a sender that has none. */
export function grantOf(credentials: Credentials): Grant | undefined {
  if (credentials === 'all' || credentials === 'open') return undefined;
  if (typeof credentials === 'string') throw new Error('a request without credentials got as far as a handler');
  return credentials.role === undefined ? credentials : undefined;
}
