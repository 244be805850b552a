/**
 * Stream attributes: the JSON object of Stream-Attrs and PUT attrs, reduced to the members that are kept. Values keep the
 * spelling they were sent with (escapes, numbers, order inside `metadata`), only blanks between tokens go. Which are equal says
 * attributes-equal.ts.
 */
import { ATTRIBUTES_BYTES_MAX } from '../base/limits.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import { compactJson } from './json-records.ts';
import { scanString } from './json-scan.ts';

export type AttributesResult =
  | {
      ok: true;
      /** `{"title":...,"metadata":...}` without blanks; either member may be missing. */
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

const TITLE_PREFIX = encodeUtf8('"title":');
const METADATA_PREFIX = encodeUtf8('"metadata":');
/** `metadata` with every letter written as \uXXXX, and its quotes. A longer name is another name: not decoded. */
const NAME_BYTES_MAX = 'metadata'.length * 6 + 2;

/** A part of the text, from `start` to before `end`. */
interface Span {
  start: number;
  end: number;
}

/** Position behind the value at `at`; the text is known to be valid and without blanks. */
function skipValue(text: Uint8Array, at: number): number {
  let depth = 0;
  for (;;) {
    const byte = text[at] as number;
    if (byte === QUOTE) {
      at = scanString(text, at + 1, text.length);
    } else if (byte === OBJECT_OPEN || byte === ARRAY_OPEN) {
      depth++;
      at++;
      continue;
    } else if (byte === OBJECT_CLOSE || byte === ARRAY_CLOSE) {
      // With nothing open this bracket ends the object around a number or literal.
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

/** The member name in `text` from quote to quote, escapes undone; '' for a name too long to be one of ours. */
function memberName(text: Uint8Array, start: number, end: number): string {
  if (end - start > NAME_BYTES_MAX) return '';
  const quoted = decodeUtf8(text, start, end);
  for (let i = start; i < end; i++) {
    if (text[i] === BACKSLASH) return JSON.parse(quoted) as string;
  }
  return quoted.slice(1, -1);
}

/** Where the values of the kept members are; a repeated name counts where it stands last. */
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

/** Braces, commas and the kept members into bytes of their own: attributes are kept, so no view of a larger buffer. */
function encode(text: Uint8Array, title: Span | undefined, metadata: Span | undefined): Uint8Array {
  const titleBytes = title === undefined ? 0 : TITLE_PREFIX.length + title.end - title.start;
  const metadataBytes = metadata === undefined ? 0 : METADATA_PREFIX.length + metadata.end - metadata.start;
  const comma = titleBytes > 0 && metadataBytes > 0 ? 1 : 0;
  const encoded = new Uint8Array(2 + titleBytes + comma + metadataBytes);
  encoded[0] = OBJECT_OPEN;
  let at = 1;
  if (title !== undefined) {
    encoded.set(TITLE_PREFIX, at);
    encoded.set(text.subarray(title.start, title.end), at + TITLE_PREFIX.length);
    at += titleBytes;
  }
  if (comma > 0) encoded[at++] = COMMA;
  if (metadata !== undefined) {
    encoded.set(METADATA_PREFIX, at);
    encoded.set(text.subarray(metadata.start, metadata.end), at + METADATA_PREFIX.length);
    at += metadataBytes;
  }
  encoded[at] = OBJECT_CLOSE;
  return encoded;
}

/**
 * `title` (string; null counts as absent) and `metadata` (object; `{}` counts as absent). Other members are accepted
 * and not stored. Encoded to more than 16 KiB, wrong types, not an object, not JSON: refused with a sentence.
 */
export function parseAttributes(body: Uint8Array): AttributesResult {
  const compact = compactJson(body);
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
