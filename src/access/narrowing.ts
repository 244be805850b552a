/** The wish of a token's holder for a narrower one: its shape, and what no parent may give. Pure. */
import { NARROWED_SECONDS_MAX, URL_TOKEN_SECONDS_MAX } from '../base/limits.ts';
import { type Scope, isTable, parseScopes } from '../base/scopes.ts';
import { type Grant, excessOf } from './scopes.ts';

export interface NarrowingWish {
  readonly scopes: readonly Scope[];
  readonly lifeMs: number;
  /** It comes in URLs and in nothing else. */
  readonly isForUrl: boolean;
}

export type ParsedWish =
  | { readonly ok: true; readonly wish: NarrowingWish }
  | { readonly ok: false; readonly reason: string };

const MEMBERS: ReadonlySet<string> = new Set(['scopes', 'expires_in', 'use']);
const EXPECTED = 'expected {"scopes": [...], "expires_in": SECONDS}, and perhaps "use": "url"';

/** Reads the body. Whatever is not understood is refused, so that no misspelling widens a right. */
export function parseWish(body: string): ParsedWish {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return bad(`the body is no JSON: ${EXPECTED}`);
  }
  if (!isTable(value) || Object.keys(value).some((key) => !MEMBERS.has(key))) return bad(EXPECTED);
  const { expires_in: seconds, use } = value;
  if (use !== undefined && use !== 'url') return bad('use: expected "url", or nothing');
  const isForUrl = use === 'url';
  const max = isForUrl ? URL_TOKEN_SECONDS_MAX : NARROWED_SECONDS_MAX;
  if (typeof seconds !== 'number' || !Number.isInteger(seconds) || seconds < 1 || seconds > max) {
    return bad(`expires_in: expected whole seconds, 1 to ${max}${isForUrl ? ' in a URL' : ''}`);
  }
  const parsed = parseScopes(value['scopes']);
  if (!parsed.ok) return bad(`${parsed.fault.place}: ${parsed.fault.reason}`);
  const { scopes } = parsed;
  const writing = scopes.findIndex(({ operations }) => operations.some((operation) => operation !== 'read'));
  if (isForUrl && writing >= 0) return bad(`scopes[${writing}].operations: a token in a URL may read and nothing else`);
  return { ok: true, wish: { scopes, lifeMs: seconds * 1000, isForUrl } };
}

function bad(reason: string): ParsedWish {
  return { ok: false, reason };
}

/** The right in a wish that its holder has not; undefined: it has all of them. `parent` undefined: all rights. */
export function narrowingFault(parent: Grant | undefined, { scopes }: NarrowingWish): string | undefined {
  const excess = parent && excessOf(parent.scopes, scopes);
  if (excess === undefined) return undefined;
  return `scopes[${excess.index}]: no scope of the token covers ${excess.operation} on all of it`;
}

/** Does the child allow nothing, and at no time, that its parent does not allow now? */
export function isWithin(child: Grant, parent: Grant | undefined): boolean {
  if (parent === undefined) return true;
  return child.expiresAtMs <= parent.expiresAtMs && excessOf(parent.scopes, child.scopes) === undefined;
}
