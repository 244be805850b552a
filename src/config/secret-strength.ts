/**
 * Whether a secret can have 128 bits of entropy. Randomness cannot be seen in a text, so this finds what people type
 * instead: short texts, words, one character or one pattern again and again, rows of the alphabet. A text that a
 * random generator made is refused less often than once in a thousand.
 */

const BITS_MIN = 128;
/** Bits of a hexadecimal digit, of a character of base64 or other mixed text, and of a letter of a word. */
const HEX_BITS = 4;
const MIXED_BITS = 5.9;
const WORD_BITS = 2;
/**
 * Random text in base64 changes between small, capital and other characters at so many of its places, words hardly
 * ever: less by more than so many standard deviations is no chance.
 */
const CHANGES = 0.634;
const DEVIATIONS_MAX = 3.5;
/** Random text of 32 hexadecimal digits has 14 different ones, and of 22 in base64 19. */
const DISTINCT_HEX_MIN = 7;
const DISTINCT_MIXED_MIN = 12;
/** Groups of three characters that did not come before: nearly all of them in random text. */
const FRESH_MIN = 2 / 3;
/** Neighbours that are equal or follow each other: one of five in hexadecimal digits. */
const STEPS_MAX = 1 / 2;

/** The secret's weakness, as the end of a sentence about it; undefined when it shows none. */
export function weaknessOf(secret: string): string | undefined {
  const plain = secret.replaceAll('-', '');
  const isHex = /^(?:[0-9a-f]+|[0-9A-F]+)$/.test(plain);
  const bits = isHex ? plain.length * HEX_BITS : secret.length * mixedBits(secret);
  if (bits < BITS_MIN) return `has ${Math.floor(bits)} bits of entropy at best, and ${BITS_MIN} are needed`;
  if (new Set(plain).size < (isHex ? DISTINCT_HEX_MIN : DISTINCT_MIXED_MIN)) return 'has too few different characters';
  if (freshTriples(secret) < FRESH_MIN) return 'repeats a pattern';
  return steps(secret) > STEPS_MAX ? 'is a row of characters that follow each other' : undefined;
}

/** Bits of one character: of base64, or of words. */
function mixedBits(secret: string): number {
  const deviation = Math.sqrt((CHANGES * (1 - CHANGES)) / secret.length);
  return changes(secret) < CHANGES - DEVIATIONS_MAX * deviation ? WORD_BITS : MIXED_BITS;
}

/** Share of the neighbours that are of different kinds. */
function changes(secret: string): number {
  const kinds = Array.from(secret).map((character) => {
    if (/[a-z]/.test(character)) return 'small';
    return /[A-Z]/.test(character) ? 'capital' : 'other';
  });
  return pairs(kinds, (left, right) => left !== right);
}

function steps(secret: string): number {
  const codes = Array.from(secret).map((character) => character.charCodeAt(0));
  return pairs(codes, (left, right) => Math.abs(left - right) <= 1);
}

/** Share of the pairs of neighbours for which the test holds. */
function pairs<T>(list: readonly T[], test: (left: T, right: T) => boolean): number {
  const found = list.slice(1).filter((right, i) => test(list[i] as T, right));
  return found.length / Math.max(1, list.length - 1);
}

function freshTriples(secret: string): number {
  const triples = Array.from({ length: secret.length - 2 }, (_, i) => secret.slice(i, i + 3));
  return new Set(triples).size / triples.length;
}
