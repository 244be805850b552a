// Random turns, conflicts, snapshots, votes, checkpoints and restarts over a log of small segments, beside a model:
// whatever is rotated, freed, used again and copied, a log holds what was written last and never what was replaced.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Entry } from '../../src/raft/types.ts';
import type { ShardStore } from '../../src/store/shard-store.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import type { TurnBatch } from '../../src/shard/ports.ts';
import { coveredBy, recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, TemporaryStore } from './temporary.ts';
import { type Applied, batch, checkpoint, entry, logOf, openLogs, show, snapshotBatch, voteOf } from './turns.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const TURNS = IS_THOROUGH ? 1500 : 750;
const GROUPS = [1, 2, 3];
/** Nothing, next to nothing, what a few entries take, and all. */
const MEMORIES = [0, 150, 700, 1e9].map((bytes) => ({ groupBytes: bytes, shardBytes: 2 * bytes }));

/** The log as it should be, and the part that may be forgotten. */
interface Expected {
  readonly group: number;
  entries: Entry[];
  applied: number;
  appliedTerm: number;
  vote: { readonly term: number; readonly vote: number };
}

class Model {
  readonly groups: readonly Expected[] = GROUPS.map((group) => ({
    group,
    ...{ entries: [], applied: 0, appliedTerm: 0, vote: { term: 0, vote: 0 } },
  }));
  readonly #random: Random;
  #term = 1;

  constructor(random: Random) {
    this.#random = random;
  }

  get applied(): Applied {
    return new Map(this.groups.map(({ group, applied, appliedTerm }) => [group, [applied, appliedTerm] as const]));
  }

  /** Batches that raft hands out in one turn. */
  turn(turn: number): TurnBatch[] {
    return this.groups.flatMap((one) => (this.#random.chance(0.4) ? [] : [this.#batch(one, turn)]));
  }

  #batch(one: Expected, turn: number): TurnBatch {
    const random = this.#random;
    const { group } = one;
    if (random.chance(0.03)) return this.#snapshot(one, one.applied + random.int(1, 6));
    // A conflict never reaches below what is applied.
    const keep = random.chance(0.15) ? random.int(one.applied, one.entries.length) : one.entries.length;
    if (keep < one.entries.length) this.#term++;
    one.entries.length = keep;
    const size = random.chance(0.05) ? random.int(3000, 20_000) : 0;
    const added = Array.from({ length: random.int(1, 3) }, (_, i) =>
      entry(keep + i + 1, this.#term, `${group}:${turn}:${keep + i + 1}${'.'.repeat(size)}`),
    );
    one.entries.push(...added);
    if (!random.chance(0.1)) return batch(group, added);
    one.vote = { term: this.#term, vote: random.int(1, 3) };
    return batch(group, added, { ...one.vote, commit: 0 });
  }

  /** It replaces the whole log, even where the log continued after it. */
  #snapshot(one: Expected, index: number): TurnBatch {
    const term = ++this.#term;
    one.entries = Array.from({ length: index }, (_, i) => one.entries[i] ?? entry(i + 1, term));
    one.entries[index - 1] = entry(index, term, 'never in the log');
    one.applied = index;
    one.appliedTerm = term;
    return snapshotBatch(one.group, index, term);
  }

  /** Applies more of some groups and compacts it. Rarely, and not all alike: one group then keeps old segments. */
  compact(store: ShardStore): void {
    const random = this.#random;
    for (const one of this.groups) {
      if (!random.chance(one.group === 1 ? 0.02 : 0.2)) continue;
      one.applied = random.int(one.applied, one.entries.length);
      one.appliedTerm = one.entries[one.applied - 1]?.term ?? 0;
      if (one.applied > 0) store.compact(one.group, one.applied);
    }
  }
}

/** Sights of the files in the course of a run. */
class Sightings {
  readonly names = new Set<string>();
  readonly copies = new Set<number>();
  /** The newest record of each segment: a lower one than before never comes. */
  readonly #newest = new Map<string, number>();
  reused = 0;

  look(folder: string, oldest: number): void {
    for (const { name, sequence, items, at } of recordsIn(folder)) {
      this.names.add(name);
      if (sequence < oldest) continue;
      if (items.some(({ isCopy }) => isCopy)) this.copies.add(sequence);
      if (at !== 0) continue;
      if ((this.#newest.get(name) ?? sequence) < sequence) this.reused++;
      this.#newest.set(name, sequence);
    }
  }
}

test('random turns, conflicts, snapshots, checkpoints, votes and restarts: a log never holds what was replaced', async (t) => {
  const random = createRandom(seedFromEnvironment());
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  let { store } = temporary;
  const model = new Model(random);
  const seen = new Sightings();
  let logs = openLogs(store, model.applied);
  let readBack = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    const where = `SEED=${random.seed} turn ${turn}`;
    store.setLogMemory(random.pick(MEMORIES));
    store.append(model.turn(turn));
    model.compact(store);
    if (random.chance(0.2)) checkpoint(store);
    if (random.chance(0.04)) {
      readBack += store.logReadBack;
      store = await temporary.reopen();
      store.setLogMemory(random.pick(MEMORIES));
      logs = openLogs(store, model.applied);
    }
    for (const one of model.groups) {
      const log = logOf(logs, one.group);
      const expected = one.entries.slice(log.firstIndex() - 1).map(({ data }) => Buffer.from(data).toString());
      assert.equal(show(log), `${log.firstIndex()}: ${expected.join(' ')}`.trim(), `${where} group ${one.group}`);
      assert(log.firstIndex() <= one.applied + 1, where);
      assert.deepEqual(voteOf(store, one.group), one.vote, `${where} vote of group ${one.group}`);
    }
    if (turn % 10 === 0) seen.look(temporary.logFolder, coveredBy(store.tx).oldest);
  }
  assert(readBack > 1000, `${readBack} entries were read back`);
  assert(seen.copies.size > 0, 'the cleaner copied');
  assert(seen.reused > 20, `segments were used again ${seen.reused} times`);
});
