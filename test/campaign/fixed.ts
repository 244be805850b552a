// Trials of every run of the suite.

interface FixedSet {
  readonly only: readonly string[];
  readonly seeds: readonly number[];
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

export const FIXED: Readonly<Record<string, FixedSet>> = {
  'segments of a shard': { only: ['shard', 'segments'], seeds: range(1, 11) },
  'rows of a shard': { only: ['shard', 'state', 'flip'], seeds: range(1, 8) },
  'pages of a shard': { only: ['shard', 'state'], seeds: [24, 46, 95] },
  'a state cut short': { only: ['single', 'state', 'cut'], seeds: [1] },
  'the identity of a node': { only: ['single', 'identity'], seeds: range(1, 3) },
  'cold objects of a node': { only: ['single', 'cold'], seeds: range(1, 3) },
  // LMDB said only of the transaction that it is bad. A node met a page while it came back, and ended once more.
  'pages under nodes that run': { only: [], seeds: [775, 431] },
  backups: { only: ['backup'], seeds: range(1, 3) },
};
