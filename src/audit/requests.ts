/**
 * The requests that leave a line. On the admin plane: those of every row but probes, metrics and documents. On the client
 * plane: those that delete, or make tokens. On both: those that are refused for who sends them.
 */
import type { AuditEntry } from './entry.ts';
import type { AuditTrail } from './trail.ts';

export type PlaneKind = 'client' | 'admin';

interface AuditedRow {
  readonly methods: readonly string[];
  readonly pattern: string;
  readonly access?: string;
}

/** It gives a token to the holder of another one. */
const NARROWING = '/__svc/tokens';
/** Asked by monitors and by the console's page all the time, and about no tenant's data. */
const ROUTINE: ReadonlySet<string> = new Set([
  ...['/__svc/metrics', '/__svc/metrics/history', '/__svc/openapi.json', '/__svc/leadership-shed', '/__svc/whoami'],
]);

export function isAudited(plane: PlaneKind, { methods, pattern, access }: AuditedRow): boolean {
  if (plane === 'client') return pattern === NARROWING || methods.includes('DELETE') || methods.includes('*');
  return access !== 'open' && access !== 'probe' && !ROUTINE.has(pattern);
}

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

type Line = Omit<AuditEntry, 'event'>;

/** `isDenied`: whatever its answer says. */
export function leave(
  audit: AuditTrail,
  line: Line,
  { method, isDenied }: { method: string; isDenied: boolean },
): void {
  if (isDenied || isDenial(line)) return audit.denied({ event: 'denied', ...line });
  if (line.plane === 'client') {
    // Calls about subscriptions come by one row. On the open ones a sender without rights deletes nothing.
    if (method === 'DELETE' && line.reason === undefined) audit.changed({ event: 'deleted', ...line });
    else if (line.token !== undefined) audit.changed({ event: 'tokens', ...line });
    return undefined;
  }
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? audit.read({ event: 'admin', ...line }) : audit.changed({ event: 'admin', ...line });
}

/** A producer that another one fenced is not refused for who it is, although flat routes say 403. */
function isDenial({ status, code }: Line): boolean {
  return status === 401 || (status === 403 && code !== 'PRODUCER_EPOCH_STALE');
}
