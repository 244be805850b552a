/**
 * JSON bodies to records. The text is checked against RFC 8259 and strict UTF-8 and kept byte for byte, except
 * whitespace between tokens. No value is ever built, so numbers (invariant 10), escapes and key order come
 * back as sent.
 *
 * One pass, in place, over a copy of the body (the caller's bytes may be in shared memory, and the scanners need a zero
 * after the text). For everything ahead, a position in the copy equals the position in the body. What has been passed
 * is in runs, which move down by `dropped` bytes when the next whitespace, or the end, closes them. Without whitespace
 * there is a single run, which moves only if an array's bracket was dropped in front of it.
 */
import { JSON_DEPTH_MAX } from '../../base/limits.ts';
import { fail, failure, scanLiteral, scanNumber, scanString } from './json-scan.ts';

export type JsonResult =
  | {
      ok: true;
      /** The records, each a line ending in \n. */
      bytes: Uint8Array;
      /** End of each record in `bytes`, including its \n. */
      ends: number[];
    }
  | { ok: false; reason: string };

const NEWLINE = 0x0a;
const BLANK = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const ARRAY_OPEN = 0x5b;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

/** Context of a value: none, an array whose elements become records, an array, an object. */
const IN_NOTHING = 0;
const IN_RECORDS = 1;
const IN_ARRAY = 2;
const IN_OBJECT = 3;

/** A loop moves runs shorter than this faster than copyWithin, which costs about 40 ns per call. */
const SHORT_RUN_BYTES = 40;

/**
 * Small bodies are copied into a slab: a new Uint8Array costs 400 ns, a view of a slab 70 ns (Node 20), and scanning
 * 256 bytes 350 ns. Each part of a slab is used once, so it is zero beforehand and results never change. A result that
 * outlives its request keeps its whole slab in memory.
 */
const SLAB_BYTES = 64 * 1024;
const SLAB_BODY_BYTES_MAX = 4 * 1024;
let slab = new Uint8Array(SLAB_BYTES);
let slabUsed = 0;

// State of the current scan. Scans are synchronous and never nest.
const surroundings = new Uint8Array(JSON_DEPTH_MAX + 1);
let runStart = 0;
let dropped = 0;
let ends: number[] = [];

/** Moves the run that ends before `runEnd` to its place in the output. */
function moveRun(text: Uint8Array, runEnd: number): void {
  if (dropped === 0) return;
  const size = runEnd - runStart;
  let to = runStart - dropped;
  if (size >= SHORT_RUN_BYTES) {
    text.copyWithin(to, runStart, runEnd);
  } else {
    for (let from = runStart; from < runEnd; from++) text[to++] = text[from] as number;
  }
}

/** Position of the first non-whitespace byte from `at`; at most the zero after the text. */
function skipBlanks(text: Uint8Array, at: number): number {
  for (;;) {
    const byte = text[at];
    if (byte !== BLANK && byte !== NEWLINE && byte !== 0x09 && byte !== 0x0d) return at;
    at++;
  }
}

/** Closes the run at `at` and drops any whitespace there; returns the position after it. */
function dropBlanks(text: Uint8Array, at: number): number {
  const next = skipBlanks(text, at);
  if (next !== at) {
    moveRun(text, at);
    dropped += next - at;
    runStart = next;
  }
  return next;
}

/** Drops the bracket before `at` as if it were whitespace. Nothing precedes it, so no run has to move. */
function dropBracket(at: number): void {
  dropped++;
  runStart = at;
}

/** The byte at `at` becomes the \n that ends a record. */
function endRecord(text: Uint8Array, at: number): void {
  text[at] = NEWLINE;
  ends.push(at + 1 - dropped);
}

/** Scans a member's name and colon. The name must begin at `at`. Returns where the value may begin, or -1. */
function scanName(text: Uint8Array, at: number, length: number): number {
  if (text[at] !== QUOTE) return fail(at, 'expected a member name in double quotes');
  let next = scanString(text, at + 1, length);
  if (next < 0) return next;
  if ((text[next] as number) <= BLANK) next = dropBlanks(text, next);
  return text[next] === COLON ? next + 1 : fail(next, 'expected a colon after the member name');
}

/** Opens a container of kind `inside` at `depth`. Returns the new depth, or -1 when that is too deep. */
function open(inside: number, depth: number, at: number): number {
  if (depth >= JSON_DEPTH_MAX) return fail(at, `nesting deeper than ${JSON_DEPTH_MAX} levels`);
  surroundings[depth + 1] = inside;
  return depth + 1;
}

/**
 * Scans the value at `at` with everything in it. Iterative, so depth uses no stack. Returns the position after it, or
 * -1. With `flatten`, the elements of a top-level array become records.
 */
function scanDocument(text: Uint8Array, at: number, length: number, flatten: boolean): number {
  let depth = 0;
  surroundings[0] = IN_NOTHING;
  for (;;) {
    // A value begins here, possibly after whitespace.
    let byte = text[at] as number;
    if (byte <= BLANK) {
      at = dropBlanks(text, at);
      byte = text[at] as number;
    }
    if (byte === QUOTE) {
      at = scanString(text, at + 1, length);
    } else if (byte === OBJECT_OPEN) {
      depth = open(IN_OBJECT, depth, at);
      if (depth < 0) return -1;
      at++;
      if ((text[at] as number) <= BLANK) at = dropBlanks(text, at);
      if (text[at] !== OBJECT_CLOSE) {
        at = scanName(text, at, length);
        if (at < 0) return -1;
        continue;
      }
      at++;
      depth--;
    } else if (byte === ARRAY_OPEN) {
      const records = flatten && depth === 0;
      depth = open(records ? IN_RECORDS : IN_ARRAY, depth, at);
      if (depth < 0) return -1;
      at++;
      if (records) dropBracket(at);
      if ((text[at] as number) <= BLANK) at = dropBlanks(text, at);
      if (text[at] !== ARRAY_CLOSE) continue;
      at++;
      depth--;
    } else if (byte === MINUS || (byte >= 0x30 && byte <= 0x39)) {
      at = scanNumber(text, at);
    } else {
      at = scanLiteral(text, at);
    }
    if (at < 0) return -1;

    // A value ended here: close the containers that it ends, until a comma asks for the next value.
    for (;;) {
      const inside = surroundings[depth];
      if (inside === IN_NOTHING) return at;
      byte = text[at] as number;
      if (byte <= BLANK) {
        at = dropBlanks(text, at);
        byte = text[at] as number;
      }
      if (byte === COMMA) {
        if (inside === IN_RECORDS) endRecord(text, at);
        at++;
        if (inside === IN_OBJECT) {
          if ((text[at] as number) <= BLANK) at = dropBlanks(text, at);
          at = scanName(text, at, length);
          if (at < 0) return -1;
        }
        break;
      }
      if (byte !== (inside === IN_OBJECT ? OBJECT_CLOSE : ARRAY_CLOSE)) {
        return fail(at, inside === IN_OBJECT ? 'expected a comma or }' : 'expected a comma or ]');
      }
      if (inside === IN_RECORDS) endRecord(text, at);
      at++;
      depth--;
    }
  }
}

/** A copy of `body` followed by a zero. */
function copyWithZero(body: Uint8Array): Uint8Array {
  const size = body.length + 1;
  let text: Uint8Array;
  if (size > SLAB_BODY_BYTES_MAX) {
    text = new Uint8Array(size);
  } else {
    if (slabUsed + size > SLAB_BYTES) {
      slab = new Uint8Array(SLAB_BYTES);
      slabUsed = 0;
    }
    text = new Uint8Array(slab.buffer, slabUsed, size);
    slabUsed += size;
  }
  text.set(body);
  return text;
}

function refusal(length: number): JsonResult {
  if (failure.at >= length)
    return { ok: false, reason: `invalid JSON: the text ends too early, after ${length} bytes` };
  return { ok: false, reason: `invalid JSON at byte ${failure.at}: ${failure.problem}` };
}

function normalize(body: Uint8Array, flatten: boolean): JsonResult {
  const length = body.length;
  const text = copyWithZero(body);
  runStart = 0;
  dropped = 0;
  ends = [];
  if (text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf) {
    return { ok: false, reason: 'invalid JSON at byte 0: a byte order mark' };
  }
  const start = dropBlanks(text, 0);
  if (start === length) return { ok: false, reason: 'invalid JSON: the body is empty' };
  const isList = flatten && text[start] === ARRAY_OPEN;
  const end = scanDocument(text, start, length, flatten);
  if (end < 0) return refusal(length);
  const rest = skipBlanks(text, end);
  if (rest < length) {
    fail(rest, 'unexpected bytes after the value');
    return refusal(length);
  }
  return { ok: true, bytes: finish(text, end, isList), ends };
}

/** Moves the last run, ends the last record, and trims the output. */
function finish(text: Uint8Array, end: number, isList: boolean): Uint8Array {
  if (isList) {
    // The closing bracket became the last record's \n. An empty list leaves nothing.
    if (ends.length === 0) return text.subarray(0, 0);
    moveRun(text, end);
    return text.subarray(0, end - dropped);
  }
  moveRun(text, end);
  text[end - dropped] = NEWLINE;
  ends.push(end - dropped + 1);
  return dropped === 0 && end + 1 === text.length ? text : text.subarray(0, end - dropped + 1);
}

/**
 * One JSON value, or an array flattened by one level, as one line per record. Whitespace between tokens is dropped,
 * everything else is kept byte for byte. An empty array gives no records; the caller decides whether that is allowed.
 * The result shares no memory with `body`; copy what is kept for long (see SLAB_BYTES).
 */
export function normalizeJson(body: Uint8Array): JsonResult {
  return normalize(body, true);
}

/** One JSON value of any kind as a single line: the same rules without flattening. */
export function compactJson(body: Uint8Array): JsonResult {
  return normalize(body, false);
}
