/** The answers to a token with scopes or a role that may not do something: which code, and the sentence behind it. */
import type { ErrorCode, RefusalReason } from '../base/errors.ts';
import type { OperatorRole, ScopedOperation } from '../base/scopes.ts';
import { type Grant, type ScopeDecision, decide, decideBucket, hasRole, rangesOf } from './scopes.ts';

/** The subject of a request: a stream, or without one a bucket. */
interface Target {
  readonly bucket: string;
  readonly stream?: string;
}

/** A call of the admin plane. */
export function roleRefusal(grant: Grant, role: OperatorRole | undefined): RefusalReason | undefined {
  if (hasRole(grant, role)) return undefined;
  const needed = role === undefined ? 'a token with all rights' : `the role ${role}`;
  return { code: 'INSUFFICIENT_SCOPE', detail: `this takes ${needed}, and ${shown(grant.id)} has ${grant.role}` };
}

/** A route that no scope opens. */
export function scopelessRefusal({ id }: Grant): RefusalReason {
  return { code: 'INSUFFICIENT_SCOPE', detail: `this takes a token with all rights, and ${shown(id)} has scopes` };
}

export function streamRefusal(
  grant: Grant,
  operation: ScopedOperation,
  bucket: string,
  stream: string,
): RefusalReason | undefined {
  return refusedAs(decide(grant, operation, bucket, stream), 'STREAM_NOT_FOUND', operation, { bucket, stream });
}

/** The stream from which a fork begins: a fork shows all that its source holds. */
export function sourceRefusal(grant: Grant, bucket: string, stream: string): RefusalReason | undefined {
  return refusedAs(decide(grant, 'read', bucket, stream), 'FORK_SOURCE_NOT_FOUND', 'read', { bucket, stream });
}

export function bucketRefusal(grant: Grant, operation: ScopedOperation, bucket: string): RefusalReason | undefined {
  return refusedAs(decideBucket(grant, operation, bucket), 'BUCKET_NOT_FOUND', operation, { bucket });
}

/** A listing shows what the scopes cover: a bucket out of scope is as empty as one that is not there. */
export function listingRefusal(grant: Grant, operation: ScopedOperation, bucket: string): RefusalReason | undefined {
  if (rangesOf(grant, operation, bucket).length > 0) return undefined;
  return decideBucket(grant, operation, bucket) === 'denied' ? bucketRefusal(grant, operation, bucket) : undefined;
}

function refusedAs(
  decision: ScopeDecision,
  hidden: ErrorCode,
  operation: ScopedOperation,
  { bucket, stream }: Target,
): RefusalReason | undefined {
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
