/**
 * The line that a request leaves: its row in the table of routes says so (`isAudited`), or it was refused for who sends
 * it. On the client plane those rows are the ones that delete, raise the retention floor, or make tokens.
 */
import type { AuditEntry } from './entry.ts';
import type { AuditTrail } from './trail.ts';

export type PlaneKind = 'client' | 'admin';

/** Parameters that say what an operator changes. */
export const PARAMETERS: ReadonlySet<string> = new Set([
  ...['upto', 'addr', 'voters', 'adopt', 'min_hot_bytes', 'max_bytes'],
]);

/** Names hold up to 1 KiB, and a path may hold anything. */
export const PATH_CHARS_MAX = 512;

/** Cut as paths are. */
export function namesOf({ bucket, stream }: { bucket: string; stream: string }): Pick<AuditEntry, 'bucket' | 'stream'> {
  const cut = bucket.slice(0, PATH_CHARS_MAX);
  return stream === '' ? { bucket: cut } : { bucket: cut, stream: stream.slice(0, PATH_CHARS_MAX) };
}

/** `credentials`: those of the plane (`open`, `all`), a token with scopes or a role, or why there are none. */
export function whoOf(
  plane: PlaneKind,
  credentials: string | { readonly id: string },
): Pick<AuditEntry, 'who' | 'reason'> {
  if (typeof credentials === 'object') return { who: `token:${credentials.id}` };
  if (credentials === 'all') return { who: `${plane}_token` };
  return credentials === 'open' ? { who: 'anonymous' } : { who: 'anonymous', reason: credentials };
}

/** Tokens that were made from another one are one sender. Undefined: it is told apart by who it is. */
export function accountOf(credentials: string | { readonly account?: string }): string | undefined {
  if (typeof credentials !== 'object' || credentials.account === undefined) return undefined;
  return `token:${credentials.account}`;
}

type Line = Omit<AuditEntry, 'event'>;

/** A request, as far as its line does not say it. */
interface Asked {
  readonly method: string;
  /** The operation of its row in the table of routes. */
  readonly operation: string;
  /** Whatever its answer says. */
  readonly isDenied: boolean;
  readonly account: string | undefined;
}

export function leave(audit: AuditTrail, line: Line, { method, operation, isDenied, account }: Asked): void {
  if (isDenied || isDenial(line)) return audit.denied({ event: 'denied', ...line }, account);
  if (line.plane === 'client') {
    // Calls about subscriptions come by one row. On the open ones a sender without rights deletes nothing.
    const deletes = method === 'DELETE' || operation === 'retention';
    if (deletes && line.reason === undefined) audit.changed({ event: 'deleted', ...line }, account);
    else if (line.token !== undefined) audit.changed({ event: 'tokens', ...line }, account);
    return undefined;
  }
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead
    ? audit.read({ event: 'admin', ...line }, account)
    : audit.changed({ event: 'admin', ...line }, account);
}

/** A producer that another one fenced is not refused for who it is, although flat routes say 403. */
function isDenial({ status, code }: Line): boolean {
  return status === 401 || (status === 403 && code !== 'PRODUCER_EPOCH_STALE');
}
