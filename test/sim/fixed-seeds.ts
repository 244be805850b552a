/** Run by every `npm run check`. Seeds that found a bug once come first and stay. */
const FOUND_SOMETHING: readonly number[] = [
  // A crash right after a snapshot took over left the rows of the state before it.
  0x42d,
  // After a restart, what came with a replayed import was a view of the log's memory.
  0xa2,
  // A BEGIN that came late undid the import that it had begun;
  0xf,
  // or began again one that had been given up, and nobody went on with it.
  0x114,
];
const COUNT = 200;

export const FIXED_SEEDS: readonly number[] = [
  ...new Set([...FOUND_SOMETHING, ...Array.from({ length: COUNT }, (_, i) => i + 1)]),
];
