/** Changes to the text of a file of tokens, as an operator would make them in an editor, so that comments stay. */
import type { ListedToken } from '../base/scopes.ts';

/** The text with one token more, at its end. */
export function withToken(text: string, token: ListedToken): string {
  return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${written(token)}`;
}

/** The text without the token that is the so-many-th. Each has to have a [[tokens]] of its own. */
export function withoutToken(text: string, at: number): string {
  const lines = text.split('\n');
  const heads = [...lines.keys()].filter((i) => /^\s*\[\[\s*tokens\s*\]\]/.test(lines[i] ?? ''));
  const from = heads[at] ?? lines.length;
  lines.splice(from, (heads[at + 1] ?? lines.length) - from);
  return lines.join('\n');
}

const REVOKED = /^([ \t]*revoked[ \t]*=[ \t]*\[)(\s*\])?/m;

/** The text with one id more in front of those that are revoked. */
export function withRevoked(text: string, id: string): string {
  const shown = JSON.stringify(id);
  if (!REVOKED.test(text)) return `revoked = [${shown}]\n${text}`;
  return text.replace(REVOKED, (_, open: string, end?: string) => `${open}${shown}${end === undefined ? ', ' : ']'}`);
}

/** The entry as TOML, whose strings take the escapes of JSON. */
function written({ id, sha256, expiresAtMs, scopes, role, limits = {} }: ListedToken): string {
  const text = JSON.stringify;
  const expiry = expiresAtMs === undefined ? [] : [`expires_at = ${new Date(expiresAtMs).toISOString()}`];
  const tables = scopes.flatMap(({ bucket, stream, streams, operations }) => [
    ...['[[tokens.scopes]]', `bucket = ${text(bucket)}`],
    stream === undefined ? `streams = ${text(streams)}` : `stream = ${text(stream)}`,
    `operations = [${operations.map((operation) => text(operation)).join(', ')}]`,
  ]);
  const rights = role === undefined ? tables : [`role = "${role}"`];
  const own = Object.entries(limits).map(([name, value]) => `limits.${name} = ${value}`);
  return [`\n[[tokens]]`, `id = ${text(id)}`, `sha256 = "${sha256}"`, ...expiry, ...own, ...rights, ''].join('\n');
}
