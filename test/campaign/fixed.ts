// Trials of every run of the suite; `npm run check` has about as many again of the kinds that are drawn most often.
import { IS_THOROUGH } from '../support/thorough.ts';

interface FixedSet {
  readonly only: readonly string[];
  readonly seeds: readonly number[];
}

const DRAWN = IS_THOROUGH ? 11 : 5;
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

export const FIXED: Readonly<Record<string, FixedSet>> = {
  // The node showed rows of another range (164), and ended by assertions of LMDB: a cursor ran into a page (118, 1569), and
  // a checkpoint wrote to one (7042, below).
  'pages under a shard that has them open': { only: ['open', 'state'], seeds: [164, 118, 1569, ...range(1, DRAWN)] },
  'segments of a shard': { only: ['shard', 'segments'], seeds: range(1, DRAWN) },
  'rows of a shard': { only: ['shard', 'state', 'flip'], seeds: range(1, DRAWN) },
  'pages of a shard': { only: ['shard', 'state'], seeds: [24, 46, 95] },
  'a state cut short': { only: ['single', 'state', 'cut'], seeds: [1] },
  'the identity of a node': { only: ['single', 'identity'], seeds: range(1, 3) },
  'cold objects of a node': { only: ['single', 'cold'], seeds: range(1, 3) },
  // LMDB said only of the transaction that it is bad. A node met a page while it came back, and ended once more.
  'pages under nodes that run': { only: [], seeds: [7042, 775, 431] },
  backups: { only: ['backup'], seeds: range(1, 3) },
};
