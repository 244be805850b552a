/**
 * Stream attributes: the JSON object of Stream-Attrs and PUT attrs, reduced to the members that are kept. Values keep
 * their spelling (escapes, numbers, order inside `metadata`); only whitespace between tokens is dropped.
 */
import { byteAt } from '../base/bytes.ts';
import { ATTRIBUTES_BYTES_MAX } from '../base/limits.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import type { JsonNormalizer } from './json-records.ts';
import { scanString } from './json-scan.ts';

export type AttributesResult =
  | {
      ok: true;
      /** `{"title":...,"metadata":...}` without whitespace; either member may be missing. */
      encoded: Uint8Array;
    }
  | { ok: false; reason: string };

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const ARRAY_OPEN = 0x5b;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;
const LETTER_N = 0x6e;

/** `metadata` with every letter written as \uXXXX, plus quotes. Longer names are none of ours and not decoded. */
const NAME_BYTES_MAX = 'metadata'.length * 6 + 2;

/** JSON tokens, without whitespace. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^{}[\],:"]+/g;

/** A part of the text, from `start` to before `end`. */
interface Span {
  start: number;
  end: number;
}

/** Position after the value at `at`. The text is known to be valid and free of whitespace. */
function skipValue(text: Uint8Array, at: number): number {
  let depth = 0;
  for (;;) {
    const byte = byteAt(text, at);
    if (byte === QUOTE) {
      at = scanString(text, at + 1, text.length);
    } else if (byte === OBJECT_OPEN || byte === ARRAY_OPEN) {
      depth++;
      at++;
      continue;
    } else if (byte === OBJECT_CLOSE || byte === ARRAY_CLOSE) {
      // No bracket is open, so this one ends the object that contains the number or literal.
      if (depth === 0) return at;
      depth--;
      at++;
    } else if (byte === COMMA && depth === 0) {
      return at;
    } else {
      at++;
      continue;
    }
    if (depth === 0) return at;
  }
}

/** The member name in `text` between its quotes, unescaped; '' for a name too long to be one of ours. */
function memberName(text: Uint8Array, start: number, end: number): string {
  if (end - start > NAME_BYTES_MAX) return '';
  const quoted = decodeUtf8(text, start, end);
  for (let i = start; i < end; i++) {
    if (text[i] === BACKSLASH) return JSON.parse(quoted) as string;
  }
  return quoted.slice(1, -1);
}

/** Finds the values of the kept members. Of a repeated name the last one counts. */
function findMembers(text: Uint8Array): { title: Span | undefined; metadata: Span | undefined } {
  let title: Span | undefined;
  let metadata: Span | undefined;
  let at = 1;
  while (text[at] !== OBJECT_CLOSE) {
    const nameEnd = scanString(text, at + 1, text.length);
    const name = memberName(text, at, nameEnd);
    const start = nameEnd + 1;
    const end = skipValue(text, start);
    if (name === 'title') title = { start, end };
    else if (name === 'metadata') metadata = { start, end };
    at = text[end] === COMMA ? end + 1 : end;
  }
  return { title, metadata };
}

/** In its own memory: attributes live long, so they must not be a view of a larger buffer. */
function encode(text: Uint8Array, title: Span | undefined, metadata: Span | undefined): Uint8Array {
  const member = (name: string, span: Span | undefined): string[] =>
    span === undefined ? [] : [`"${name}":${decodeUtf8(text, span.start, span.end)}`];
  return encodeUtf8(`{${[...member('title', title), ...member('metadata', metadata)].join(',')}}`);
}

/**
 * Accepts `title` (string; null counts as absent) and `metadata` (object; `{}` counts as absent). Other members are
 * accepted and not stored. Refuses with a sentence: over 16 KiB encoded, wrong types, not an object, not JSON.
 */
export function parseAttributes(body: Uint8Array, json: JsonNormalizer): AttributesResult {
  const compact = json.compact(body);
  if (!compact.ok) return { ok: false, reason: `attributes: ${compact.reason}` };
  const text = compact.bytes;
  if (text[0] !== OBJECT_OPEN) return { ok: false, reason: 'attributes must be a JSON object' };
  let { title, metadata } = findMembers(text);
  if (title !== undefined && text[title.start] !== QUOTE) {
    if (text[title.start] !== LETTER_N) return { ok: false, reason: 'the attribute title must be a string or null' };
    title = undefined;
  }
  if (metadata !== undefined) {
    if (text[metadata.start] !== OBJECT_OPEN) return { ok: false, reason: 'the attribute metadata must be an object' };
    if (metadata.end - metadata.start === 2) metadata = undefined;
  }
  const encoded = encode(text, title, metadata);
  if (encoded.length > ATTRIBUTES_BYTES_MAX) {
    return {
      ok: false,
      reason: `attributes are ${encoded.length} bytes encoded; the limit is ${ATTRIBUTES_BYTES_MAX}`,
    };
  }
  return { ok: true, encoded };
}

/**
 * Whether two attribute objects are the same JSON. Clients may order members differently and may escape characters or
 * not. Numbers are equal only when spelled alike, because 2.50 and 2.5 may mean different things to an application.
 * Both are output of `parseAttributes`, so they are valid and at most 128 levels deep.
 */
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
