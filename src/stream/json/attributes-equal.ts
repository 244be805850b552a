/**
 * Whether two attribute objects are the same JSON. Clients may order members differently and may escape characters or
 * not. Numbers are equal only when spelled alike, because 2.50 and 2.5 may mean different things to an application.
 */
import { decodeUtf8 } from '../../base/utf8.ts';

/** JSON tokens, without whitespace. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^{}[\],:"]+/g;

/** Both are output of `parseAttributes`, so they are valid and at most 128 levels deep. */
export function attributesEqual(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.length === b.length && a.every((byte, i) => byte === b[i])) return true;
  return canonical(a) === canonical(b);
}

/** One text per value: members sorted, the last of repeated names kept, strings in one spelling. */
function canonical(encoded: Uint8Array): string {
  const tokens = decodeUtf8(encoded, 0, encoded.length).match(TOKEN) ?? [];
  let at = 0;
  const value = (): string => {
    const token = tokens[at++] ?? '';
    if (token === '{') return object();
    if (token === '[') return array();
    return token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
  };
  const array = (): string => {
    const items: string[] = [];
    while (tokens[at] !== ']') {
      if (tokens[at] === ',') at++;
      items.push(value());
    }
    at++;
    return `[${items.join(',')}]`;
  };
  const object = (): string => {
    const members = new Map<string, string>();
    while (tokens[at] !== '}') {
      if (tokens[at] === ',') at++;
      const name = value();
      at++;
      members.set(name, value());
    }
    at++;
    const names = [...members.keys()].sort();
    return `{${names.map((name) => `${name}:${members.get(name)}`).join(',')}}`;
  };
  return value();
}
