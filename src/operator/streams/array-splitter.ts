/** The values of a JSON array as the bytes they came as, in any pieces. It does not check JSON: its server did. */
import { Failure } from '../../nodes/failure.ts';

const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const [QUOTE, BACKSLASH, COMMA, LINE_FEED, CARRIAGE_RETURN, BLANK] = [0x22, 0x5c, 0x2c, 0x0a, 0x0d, 0x20];
/** No server takes larger ones. */
const VALUE_BYTES_MAX = 64 * 1024 * 1024;

export class ArraySplitter {
  /** 0 before and behind the array, 1 between its values. */
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #hasEnded = false;
  /** Pieces of the value that has begun. */
  #held: Buffer[] = [];
  #heldBytes = 0;

  /** The values that this piece completes, each without line breaks and blanks around it. */
  push(piece: Buffer): Buffer[] {
    const values: Buffer[] = [];
    let start = 0;
    for (let i = 0; i < piece.length; i++) {
      const byte = piece[i] ?? 0;
      if (this.#inString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#inString = false;
        continue;
      }
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
        if (this.#depth === 0) {
          this.#begin(byte);
          start = i + 1;
        }
        this.#depth++;
      } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
        this.#depth--;
        if (this.#depth === 0) {
          this.#take(values, piece.subarray(start, i));
          this.#hasEnded = true;
        }
      } else if (byte === COMMA && this.#depth === 1) {
        this.#take(values, piece.subarray(start, i));
        start = i + 1;
      }
    }
    if (this.#depth > 0) this.#hold(piece.subarray(start));
    return values;
  }

  /** Throws when the array has not ended. */
  end(): void {
    if (!this.#hasEnded) throw new Failure('what it sent for a JSON stream is not a whole array');
  }

  #begin(byte: number): void {
    if (this.#hasEnded || byte !== OPEN_ARRAY) throw new Failure('what it sent for a JSON stream is not an array');
  }

  #hold(part: Buffer): void {
    this.#held.push(part);
    this.#heldBytes += part.length;
    if (this.#heldBytes > VALUE_BYTES_MAX) throw new Failure('a record that it sent does not end');
  }

  #take(values: Buffer[], part: Buffer): void {
    const value = trimmed(this.#held.length === 0 ? part : Buffer.concat([...this.#held, part]));
    this.#held = [];
    this.#heldBytes = 0;
    if (value.length > 0) values.push(onOneLine(value));
  }
}

function trimmed(value: Buffer): Buffer {
  let [start, end] = [0, value.length];
  while (start < end && (value[start] ?? 0) <= BLANK) start++;
  while (end > start && (value[end - 1] ?? 0) <= BLANK) end--;
  return value.subarray(start, end);
}

/** Line breaks can only stand between tokens, where a blank means the same. */
function onOneLine(value: Buffer): Buffer {
  if (!value.includes(LINE_FEED) && !value.includes(CARRIAGE_RETURN)) return value;
  return Buffer.from(value.map((byte) => (byte === LINE_FEED || byte === CARRIAGE_RETURN ? BLANK : byte)));
}

/** All values of a whole array. */
export function valuesOf(body: Buffer): Buffer[] {
  const splitter = new ArraySplitter();
  const values = splitter.push(body);
  splitter.end();
  return values;
}

const LINE_END = Buffer.from('\n');

/** Each value on a line of its own: how a JSON stream is stored. */
export function asLines(values: readonly Buffer[]): Buffer {
  return Buffer.concat(values.flatMap((value) => [value, LINE_END]));
}
