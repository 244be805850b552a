/** Content types: one normal form for storage, and the tests that the service needs. */

/**
 * Entries of each memo. A service sees a handful of types, and every request needs one; a client that invents types
 * must not grow the heap. So a full memo is cleared: the common types are back after one request each.
 */
const MEMO_ENTRIES_MAX = 256;
/** UTF-16 units of a memo key. Longer values are rare and only cost their own parsing. */
const MEMO_KEY_MAX = 128;

function memoised<T>(memo: Map<string, T>, key: string, compute: (key: string) => T): T {
  const known = memo.get(key);
  if (known !== undefined) return known;
  const value = compute(key);
  if (key.length <= MEMO_KEY_MAX) {
    if (memo.size >= MEMO_ENTRIES_MAX) memo.clear();
    memo.set(key, value);
  }
  return value;
}

/** Splits at `;` outside quoted strings: `a="x;y"` is one parameter. */
function splitParts(raw: string): string[] {
  if (!raw.includes('"')) return raw.split(';');
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let i = 0; i < raw.length; i++) {
    const char = raw[i];
    if (char === '"') quoted = !quoted;
    else if (char === '\\' && quoted) i++;
    else if (char === ';' && !quoted) {
      parts.push(raw.slice(start, i));
      start = i + 1;
    }
  }
  parts.push(raw.slice(start));
  return parts;
}

function normalizeParameter(part: string): string {
  const equals = part.indexOf('=');
  if (equals < 0) return part.toLowerCase();
  const name = part.slice(0, equals).toLowerCase();
  const value = part.slice(equals + 1);
  return `${name}=${name === 'charset' ? value.toLowerCase() : value}`;
}

function normalizeUncached(raw: string): string {
  const kept: string[] = [];
  for (const part of splitParts(raw)) {
    const trimmed = part.trim();
    if (trimmed === '') continue;
    kept.push(kept.length === 0 ? trimmed.toLowerCase() : normalizeParameter(trimmed));
  }
  return kept.join('; ');
}

/** The form in which types are compared: case-insensitive, and for JSON without charset (it is UTF-8 in any case). */
function comparisonKey(normalized: string): string {
  const lower = normalized.toLowerCase();
  if (!isJson(lower)) return lower;
  return splitParts(lower)
    .map((part) => part.trim())
    .filter((part) => !part.startsWith('charset='))
    .join('; ');
}

const normalizedOf = new Map<string, string>();
const comparedBy = new Map<string, string>();

/**
 * The form that is stored and shown: parts trimmed, empty ones dropped, joined by `; `; type, parameter names and
 * charset in lower case. Other parameter values keep their case (a multipart boundary depends on it). '' when blank.
 */
export function normalizeContentType(raw: string): string {
  return memoised(normalizedOf, raw, normalizeUncached);
}

/** Whether two normalised content types are equivalent. */
export function sameContentType(a: string, b: string): boolean {
  return a === b || memoised(comparedBy, a, comparisonKey) === memoised(comparedBy, b, comparisonKey);
}

/** The media type before the first `;`, lower case, without whitespace. */
function mediaType(type: string): string {
  const end = type.indexOf(';');
  return (end < 0 ? type : type.slice(0, end)).trim().toLowerCase();
}

/** A stream of JSON records, whatever its charset or other parameters. */
export function isJson(type: string): boolean {
  return type === 'application/json' || mediaType(type) === 'application/json';
}

/** Types that server-sent events carry as text; all others travel as base64. */
export function isText(type: string): boolean {
  const media = mediaType(type);
  return media === 'application/json' || media.startsWith('text/');
}
