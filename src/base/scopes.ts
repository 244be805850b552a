/**
 * The rights of a token with scopes as files and claims write them: words, shapes, and the reading of values from
 * outside. The decision about a request is in access/scopes.ts.
 */
import type { UseLimits } from './use-limits.ts';
import { SCOPES_PER_TOKEN_MAX, SCOPE_NAME_CHARS_MAX, SCOPE_OPERATIONS_MAX } from './limits.ts';

/** Operations that a scope names. Everything that no scope names is refused. */
export const SCOPED_OPERATIONS = [
  'create',
  'append',
  'read',
  'delete',
  'attributes',
  'snapshot',
  'subscribe',
  'list',
] as const;

export type ScopedOperation = (typeof SCOPED_OPERATIONS)[number];

interface ScopeParts {
  /** An exact name, or `*` for every bucket. */
  readonly bucket: string;
  readonly operations: readonly ScopedOperation[];
}

/** Streams of a bucket, and what may be done with them. */
export type Scope =
  /** `streams`: an exact name, or the beginning of names with `*` behind it. */
  | (ScopeParts & { readonly streams: string; readonly stream?: never })
  /** `stream`: an exact name, whatever it ends with. */
  | (ScopeParts & { readonly stream: string; readonly streams?: never });

/** Roles of the admin plane; each may do what those before it may. */
export const OPERATOR_ROLES = ['observe', 'operate', 'destroy'] as const;

export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** May a token with the role do what takes `needed`? Undefined: it has none. */
export function includesRole(role: OperatorRole | undefined, needed: OperatorRole): boolean {
  return role !== undefined && OPERATOR_ROLES.indexOf(role) >= OPERATOR_ROLES.indexOf(needed);
}

/** The kind of rights in a file: scopes open the client plane, and a role the admin plane. */
export type RightsKind = 'scopes' | 'role';

/** A token of a list, as its SHA-256. */
export interface ListedToken {
  readonly id: string;
  /** In small hexadecimal digits. */
  readonly sha256: string;
  /** Undefined: it does not expire. */
  readonly expiresAtMs: number | undefined;
  /** None with a role. */
  readonly scopes: readonly Scope[];
  readonly role?: OperatorRole;
  /** Undefined: those of every token. */
  readonly limits?: UseLimits;
}

export interface TokenList {
  readonly tokens: readonly ListedToken[];
  /** Ids of tokens that open nothing any more. */
  readonly revoked: readonly string[];
}

/** `place`: where in the value, such as `scopes[1].bucket`. */
export interface ScopeFault {
  readonly place: string;
  readonly reason: string;
}

export type ParsedScopes =
  | { readonly ok: true; readonly scopes: readonly Scope[] }
  | { readonly ok: false; readonly fault: ScopeFault };

type Table = Readonly<Record<string, unknown>>;

const KEYS: ReadonlySet<string> = new Set(['bucket', 'streams', 'stream', 'operations']);

/** Reads a list of scopes. Whatever is not understood is refused, so that no misspelling widens a right. */
export function parseScopes(raw: unknown, place = 'scopes'): ParsedScopes {
  if (!Array.isArray(raw) || raw.length === 0) return bad(place, 'expected a list of at least one scope');
  if (raw.length > SCOPES_PER_TOKEN_MAX) return bad(place, `a token may have ${SCOPES_PER_TOKEN_MAX} scopes`);
  const scopes: Scope[] = [];
  for (const [i, one] of (raw as readonly unknown[]).entries()) {
    const parsed = parseScope(one, `${place}[${i}]`);
    if ('fault' in parsed) return { ok: false, fault: parsed.fault };
    scopes.push(parsed);
  }
  return { ok: true, scopes };
}

function parseScope(raw: unknown, place: string): Scope | { readonly fault: ScopeFault } {
  const fault = (below: string, reason: string): { readonly fault: ScopeFault } => ({
    fault: { place: `${place}${below}`, reason },
  });
  if (!isTable(raw)) return fault('', 'expected bucket, streams and operations');
  const unknown = Object.keys(raw).find((key) => !KEYS.has(key));
  if (unknown !== undefined)
    return fault(`.${shown(unknown)}`, 'unknown key; a scope has bucket, streams or stream, operations');
  const { bucket, streams = '*', stream, operations } = raw;
  if (!isName(bucket)) return fault('.bucket', 'expected the name of a bucket, or "*" for every bucket');
  if (!isName(streams))
    return fault('.streams', 'expected the name of a stream, or a beginning of names with "*" behind it');
  if (stream !== undefined && !isName(stream)) return fault('.stream', 'expected the name of a stream');
  if (stream !== undefined && raw['streams'] !== undefined) return fault('', 'give either stream or streams');
  if (!Array.isArray(operations) || operations.length === 0) {
    return fault('.operations', `expected a list of ${SCOPED_OPERATIONS.join(', ')}`);
  }
  if (operations.length > SCOPE_OPERATIONS_MAX) return fault('.operations', 'names more operations than there are');
  const known = new Set<ScopedOperation>();
  for (const [i, one] of (operations as readonly unknown[]).entries()) {
    const operation = SCOPED_OPERATIONS.find((name) => name === one);
    if (operation === undefined) return fault(`.operations[${i}]`, `expected one of ${SCOPED_OPERATIONS.join(', ')}`);
    known.add(operation);
  }
  return stream === undefined
    ? { bucket, streams, operations: [...known] }
    : { bucket, stream, operations: [...known] };
}

function bad(place: string, reason: string): ParsedScopes {
  return { ok: false, fault: { place, reason } };
}

export function isTable(raw: unknown): raw is Table {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw);
}

function isName(raw: unknown): raw is string {
  return typeof raw === 'string' && raw !== '' && raw.length <= SCOPE_NAME_CHARS_MAX && !raw.includes('\0');
}

const SHOWN_CHARS_MAX = 40;

/** A key that was sent, short enough for a sentence. */
function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS_MAX));
}
