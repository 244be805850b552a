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
import { JSON_DEPTH_MAX } from '../base/limits.ts';
import { Slab } from '../base/slab.ts';
import { JsonFault, scanLiteral, scanNumber, scanString } from './json-scan.ts';

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

/** Position of the first non-whitespace byte from `at`; at most the zero after the text. */
function skipBlanks(text: Uint8Array, at: number): number {
  for (;;) {
    const byte = text[at];
    if (byte !== BLANK && byte !== NEWLINE && byte !== 0x09 && byte !== 0x0d) return at;
    at++;
  }
}

/** Normalises one body after the other. Scans are synchronous and never nest, so one object serves many callers. */
export class JsonNormalizer {
  /** Kind of the container at each depth. */
  readonly #surroundings = new Uint8Array(JSON_DEPTH_MAX + 1);
  /** Holds the results. One that outlives its request keeps a whole block in memory. */
  readonly #memory = new Slab();
  #text: Uint8Array = this.#surroundings;
  #length = 0;
  #runStart = 0;
  #dropped = 0;
  #ends: number[] = [];

  /**
   * One JSON value, or an array flattened by one level, as one line per record. Whitespace between tokens is dropped,
   * everything else is kept byte for byte. An empty array gives no records; the caller decides whether that is allowed.
   * The result shares no memory with `body`; copy what is kept for long.
   */
  records(body: Uint8Array): JsonResult {
    return this.#normalize(body, true);
  }

  /** One JSON value of any kind as a single line: the same rules without flattening. */
  compact(body: Uint8Array): JsonResult {
    return this.#normalize(body, false);
  }

  #normalize(body: Uint8Array, flatten: boolean): JsonResult {
    const { length } = body;
    // The zero that ends all loops follows the copy.
    const text = this.#memory.take(length + 1);
    text.set(body);
    text[length] = 0;
    this.#text = text;
    this.#length = length;
    this.#runStart = 0;
    this.#dropped = 0;
    this.#ends = [];
    if (text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf) {
      return { ok: false, reason: 'invalid JSON at byte 0: a byte order mark' };
    }
    try {
      const start = this.#dropBlanks(0);
      if (start === length) return { ok: false, reason: 'invalid JSON: the body is empty' };
      const isList = flatten && text[start] === ARRAY_OPEN;
      const end = this.#document(start, flatten);
      const rest = skipBlanks(text, end);
      if (rest < length) throw new JsonFault(rest, 'unexpected bytes after the value');
      return { ok: true, bytes: this.#finish(end, isList), ends: this.#ends };
    } catch (error) {
      if (!(error instanceof JsonFault)) throw error;
      if (error.at < length) return { ok: false, reason: `invalid JSON at byte ${error.at}: ${error.message}` };
      return { ok: false, reason: `invalid JSON: the text ends too early, after ${length} bytes` };
    }
  }

  /**
   * Scans the value at `at` with everything in it. Iterative, so depth uses no stack. Returns the position after it.
   * With `flatten`, the elements of a top-level array become records.
   */
  #document(at: number, flatten: boolean): number {
    const text = this.#text;
    const length = this.#length;
    const surroundings = this.#surroundings;
    let depth = 0;
    surroundings[0] = IN_NOTHING;
    for (;;) {
      // A value begins here, possibly after whitespace.
      let byte = text[at] as number;
      if (byte <= BLANK) {
        at = this.#dropBlanks(at);
        byte = text[at] as number;
      }
      if (byte === QUOTE) {
        at = scanString(text, at + 1, length);
      } else if (byte === OBJECT_OPEN) {
        depth = this.#open(IN_OBJECT, depth, at);
        at++;
        if ((text[at] as number) <= BLANK) at = this.#dropBlanks(at);
        if (text[at] !== OBJECT_CLOSE) {
          at = this.#name(at);
          continue;
        }
        at++;
        depth--;
      } else if (byte === ARRAY_OPEN) {
        const records = flatten && depth === 0;
        depth = this.#open(records ? IN_RECORDS : IN_ARRAY, depth, at);
        at++;
        if (records) {
          // Drops the bracket as if it were whitespace. Nothing precedes it, so no run has to move.
          this.#dropped++;
          this.#runStart = at;
        }
        if ((text[at] as number) <= BLANK) at = this.#dropBlanks(at);
        if (text[at] !== ARRAY_CLOSE) continue;
        at++;
        depth--;
      } else if (byte === MINUS || (byte >= 0x30 && byte <= 0x39)) {
        at = scanNumber(text, at);
      } else {
        at = scanLiteral(text, at);
      }

      // A value ended here: close the containers that it ends, until a comma asks for the next value.
      for (;;) {
        const inside = surroundings[depth];
        if (inside === IN_NOTHING) return at;
        byte = text[at] as number;
        if (byte <= BLANK) {
          at = this.#dropBlanks(at);
          byte = text[at] as number;
        }
        if (byte === COMMA) {
          if (inside === IN_RECORDS) this.#endRecord(at);
          at++;
          if (inside === IN_OBJECT) {
            if ((text[at] as number) <= BLANK) at = this.#dropBlanks(at);
            at = this.#name(at);
          }
          break;
        }
        if (byte !== (inside === IN_OBJECT ? OBJECT_CLOSE : ARRAY_CLOSE)) {
          throw new JsonFault(at, inside === IN_OBJECT ? 'expected a comma or }' : 'expected a comma or ]');
        }
        if (inside === IN_RECORDS) this.#endRecord(at);
        at++;
        depth--;
      }
    }
  }

  /** Scans a member's name and colon. The name must begin at `at`. Returns where the value may begin. */
  #name(at: number): number {
    const text = this.#text;
    if (text[at] !== QUOTE) throw new JsonFault(at, 'expected a member name in double quotes');
    let next = scanString(text, at + 1, this.#length);
    if ((text[next] as number) <= BLANK) next = this.#dropBlanks(next);
    if (text[next] !== COLON) throw new JsonFault(next, 'expected a colon after the member name');
    return next + 1;
  }

  /** Opens a container of kind `inside` at `depth`. Returns the new depth. */
  #open(inside: number, depth: number, at: number): number {
    if (depth >= JSON_DEPTH_MAX) throw new JsonFault(at, `nesting deeper than ${JSON_DEPTH_MAX} levels`);
    this.#surroundings[depth + 1] = inside;
    return depth + 1;
  }

  /** The byte at `at` becomes the \n that ends a record. */
  #endRecord(at: number): void {
    this.#text[at] = NEWLINE;
    this.#ends.push(at + 1 - this.#dropped);
  }

  /** Closes the run at `at` and drops any whitespace there; returns the position after it. */
  #dropBlanks(at: number): number {
    const next = skipBlanks(this.#text, at);
    if (next !== at) {
      this.#moveRun(at);
      this.#dropped += next - at;
      this.#runStart = next;
    }
    return next;
  }

  /** Moves the run that ends before `runEnd` to its place in the output. */
  #moveRun(runEnd: number): void {
    if (this.#dropped === 0) return;
    const text = this.#text;
    const runStart = this.#runStart;
    let to = runStart - this.#dropped;
    if (runEnd - runStart >= SHORT_RUN_BYTES) text.copyWithin(to, runStart, runEnd);
    else for (let from = runStart; from < runEnd; from++) text[to++] = text[from] as number;
  }

  /** Moves the last run, ends the last record, and trims the output. */
  #finish(end: number, isList: boolean): Uint8Array {
    const last = end - this.#dropped;
    // The closing bracket became the last record's \n. An empty list leaves nothing.
    if (isList && this.#ends.length === 0) return this.#text.subarray(0, 0);
    this.#moveRun(end);
    if (isList) return this.#text.subarray(0, last);
    this.#text[last] = NEWLINE;
    this.#ends.push(last + 1);
    return last + 1 === this.#text.length ? this.#text : this.#text.subarray(0, last + 1);
  }
}
