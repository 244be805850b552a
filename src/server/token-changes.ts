/** The tokens and keys that a reload has changed, for the audit log: by their ids, and never what they are. */
import type { AuditEntry } from '../audit/entry.ts';
import type { JwtKey } from '../base/jwt-key.ts';
import type { TokenList } from '../base/scopes.ts';
import type { Config, ScopedTokens } from '../config/config.ts';

export function tokenChanges(before: Config, now: Config): AuditEntry[] {
  const { clientToken, adminToken, tokens, adminTokens } = before.http;
  const changes: string[][] = [];
  if (clientToken !== now.http.clientToken) changes.push(['client token replaced']);
  if (adminToken !== now.http.adminToken) changes.push(['admin token replaced']);
  changes.push(...listChanges('', tokens?.list, now.http.tokens?.list));
  changes.push(...listChanges("operator's ", adminTokens, now.http.adminTokens));
  changes.push(...differences('key of the issuer', keysOf(tokens?.jwt?.keys), keysOf(now.http.tokens?.jwt?.keys)));
  changes.push(...differences('signing key', signingOf(tokens), signingOf(now.http.tokens)));
  return entriesOf(changes);
}

/** The same of keys that a server publishes. */
export function publishedChanges(before: readonly JwtKey[], now: readonly JwtKey[]): AuditEntry[] {
  return entriesOf(differences('published key of the issuer', keysOf(before), keysOf(now)));
}

function entriesOf(changes: readonly string[][]): AuditEntry[] {
  return changes.map(([what = '', token]) => {
    const entry = { event: 'tokens', who: 'node', what } as const;
    return token === undefined ? entry : { ...entry, token };
  });
}

/** The ids that are there, each with what its entry says. */
type Written = ReadonlyMap<string, string>;

function writtenOf(list: TokenList | undefined): Written {
  return new Map(list?.tokens.map((token) => [token.id, JSON.stringify(token)]));
}

function revokedOf(list: TokenList | undefined): Written {
  return new Map(list?.revoked.map((id) => [id, id]));
}

function listChanges(whose: string, before: TokenList | undefined, now: TokenList | undefined): string[][] {
  return [
    ...differences(`${whose}token`, writtenOf(before), writtenOf(now)),
    ...differences(`${whose}revocation`, revokedOf(before), revokedOf(now)),
  ];
}

function signingOf(tokens: ScopedTokens | undefined): Written {
  return new Map(tokens?.signingKeys.map(({ id }) => [id, id]));
}

/** Keys without an id (`kid`) are told apart by their place, and several with one id count as one that changes. */
function keysOf(keys: readonly JwtKey[] = []): Written {
  const written = new Map<string, string>();
  for (const [place, { id = `${place + 1}`, pem }] of keys.entries()) written.set(id, `${written.get(id) ?? ''}${pem}`);
  return written;
}

function differences(kind: string, before: Written, now: Written): string[][] {
  const changes: string[][] = [];
  for (const [id, written] of now) {
    const known = before.get(id);
    if (known === undefined) changes.push([`${kind} added`, id]);
    else if (known !== written) changes.push([`${kind} changed`, id]);
  }
  for (const id of before.keys()) if (!now.has(id)) changes.push([`${kind} removed`, id]);
  return changes;
}
