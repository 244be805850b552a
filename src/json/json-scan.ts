/**
 * Tokens of RFC 8259: strings, numbers, literals. Each scanner takes the position of a token and returns the position
 * after it, or throws a JsonFault.
 *
 * The text must be followed by a zero byte (`text[length] === 0`). Zero is not valid anywhere in JSON, so it stops
 * every loop below and none of them compares positions with the length. This saves a quarter of the time.
 */
import { utf8SequenceBytes } from '../base/utf8.ts';

/** Says where and why a text is not JSON. */
export class JsonFault extends Error {
  readonly at: number;

  constructor(at: number, problem: string) {
    super(problem);
    this.at = at;
  }
}

const QUOTE = 0x22;
const MINUS = 0x2d;
const DOT = 0x2e;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** 1 for bytes that a string may contain unescaped: ASCII from space up, except quote and backslash. */
const PLAIN = new Uint8Array(256);
for (let byte = 0x20; byte < 0x80; byte++) PLAIN[byte] = byte === QUOTE || byte === BACKSLASH ? 0 : 1;

/** 1 for letters that may follow a backslash. `u` is handled separately, because digits follow it. */
const ESCAPABLE = new Uint8Array(256);
for (const letter of '"\\/bfnrt') ESCAPABLE[letter.charCodeAt(0)] = 1;

const HEX_DIGIT = new Uint8Array(256);
for (const digit of '0123456789abcdefABCDEF') HEX_DIGIT[digit.charCodeAt(0)] = 1;

/** A string whose opening quote is at `at - 1`. */
export function scanString(text: Uint8Array, at: number, length: number): number {
  for (;;) {
    while (PLAIN[text[at] as number] === 1) at++;
    const byte = text[at] as number;
    if (byte === QUOTE) return at + 1;
    if (byte >= 0x80) {
      do {
        const size = utf8SequenceBytes(text, at, length);
        if (size === 0) throw new JsonFault(at, 'bytes that are not UTF-8');
        at += size;
      } while ((text[at] as number) >= 0x80);
    } else if (byte === BACKSLASH) {
      const letter = text[at + 1] as number;
      if (ESCAPABLE[letter] === 1) at += 2;
      else if (letter === LETTER_U) {
        // The zero after the text is not a digit, so this never reads past it.
        for (let i = at + 2; i < at + 6; i++) {
          if (HEX_DIGIT[text[i] as number] !== 1) throw new JsonFault(i, 'expected four hexadecimal digits after \\u');
        }
        at += 6;
      } else throw new JsonFault(at, 'an unknown escape in a string');
    } else {
      throw new JsonFault(
        at,
        at >= length ? 'the text ends inside a string' : 'a control character in a string must be escaped',
      );
    }
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** A number that begins at `at` with a digit or a minus. */
export function scanNumber(text: Uint8Array, at: number): number {
  if (text[at] === MINUS) at++;
  const first = text[at] as number;
  if (first === 0x30) {
    at++;
    if (isDigit(text[at])) throw new JsonFault(at, 'a number with a leading zero');
  } else {
    if (!isDigit(first)) throw new JsonFault(at, 'expected a digit');
    do at++;
    while (isDigit(text[at]));
  }
  if (text[at] === DOT) {
    at++;
    if (!isDigit(text[at])) throw new JsonFault(at, 'expected a digit after the decimal point');
    do at++;
    while (isDigit(text[at]));
  }
  if (((text[at] as number) | 0x20) === 0x65) {
    at++;
    if (text[at] === 0x2b || text[at] === MINUS) at++;
    if (!isDigit(text[at])) throw new JsonFault(at, 'expected a digit in the exponent');
    do at++;
    while (isDigit(text[at]));
  }
  return at;
}

/** `true`, `false` or `null`. */
export function scanLiteral(text: Uint8Array, at: number): number {
  // Byte by byte: a mismatch, at the latest the zero, stops before anything past the text is read.
  switch (text[at]) {
    case 0x74:
      if (text[at + 1] === 0x72 && text[at + 2] === 0x75 && text[at + 3] === 0x65) return at + 4;
      break;
    case 0x6e:
      if (text[at + 1] === 0x75 && text[at + 2] === 0x6c && text[at + 3] === 0x6c) return at + 4;
      break;
    case 0x66:
      if (text[at + 1] === 0x61 && text[at + 2] === 0x6c && text[at + 3] === 0x73 && text[at + 4] === 0x65)
        return at + 5;
      break;
    default:
      break;
  }
  throw new JsonFault(at, 'expected a value');
}
