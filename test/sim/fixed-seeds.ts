/** Run by every `npm run check`. Seeds that found a bug once come first and stay. */
const FOUND_SOMETHING: readonly number[] = [
  // A crash right after a snapshot took over left the rows of the state before it.
  0x42d,
];
const COUNT = 200;

export const FIXED_SEEDS: readonly number[] = [
  ...new Set([...FOUND_SOMETHING, ...Array.from({ length: COUNT }, (_, i) => i + 1)]),
];
