/**
 * Bugs planted in the text of the code under test, one each, for what runs alike on all nodes (and on the reference): the
 * simulation is loaded anew with one line replaced. Its like in mutations.ts are for what happens between a shard and its ports.
 */
import { register } from 'node:module';
import { BACKUP_MUTANTS, BACKUP_VARIANTS } from './backup/mutants.ts';
import type * as simulation from './simulation.ts';

export interface Mutant {
  /** Below dist, without its ending. */
  readonly file: string;
  /** As it stands in the compiled file, once. */
  readonly from: string;
  readonly to: string;
}

export const MUTANTS: Readonly<Record<string, Mutant>> = {
  ...BACKUP_MUTANTS,
  // An entry that is read back begins with its own head.
  'entry-read-back-wrong': {
    file: 'src/store/turn-log',
    from: 'this.#readPart(turn, at + ENTRY_HEAD_BYTES, data);',
    to: 'this.#readPart(turn, at, data);',
  },
  // All that arrives within a turn becomes one entry.
  'entry-unbounded': {
    file: 'src/group/group',
    from: 'this.#entry.length > 0 &&',
    to: 'false &&',
  },
  // After a while a node says that something is not there, whatever the leader said, or none did.
  'missing-in-the-end': {
    file: 'src/shard/waiting-reads',
    from: "return bounds.some(({ index }) => index === Infinity) ? 'not-confirmed' : 'not-applied';",
    to: "return 'answer-confirmed';",
  },
  'confirmed-but-not-applied': {
    file: 'src/shard/waiting-reads',
    from: 'bound.group.state.appliedIndex >= bound.index',
    to: 'bound.index < Infinity',
  },
  // The rows of a stream begin further in front after a part of them has left.
  'frontier-moves-back': {
    file: 'src/cold/state/hot',
    from: 'head.hotStart = offset;',
    to: 'head.hotStart = offset < head.tail ? head.floor : offset;',
  },
  // Leadership is lost, the command's outcome is not known, and the flusher cleans up after itself.
  'deleted-on-ambiguous-commit': {
    file: 'src/cold/shard/flusher',
    from: 'this.counters.forgotten++;',
    to: 'this.#options.port.remove({ id: this.#options.nextId(), keys: [job.key] });',
  },
  'wrong-incarnation-accepted': {
    file: 'src/cold/state/flush',
    from: 'head === undefined || head.incarnation !== first.incarnation',
    to: 'head === undefined',
  },
  'flush-anywhere': {
    file: 'src/cold/state/flush',
    from: 'first.start !== head.hotStart || first.firstRecord !== head.hotRecord',
    to: 'first.start > head.hotStart',
  },
  'sweep-takes-uploads': {
    file: 'src/cold/shard/sweeper',
    from: 'owns(object) || objectKnown(',
    to: 'objectKnown(',
  },
  // The object of a merge goes while its answer is on the way; what it is published as then is not there.
  'sweep-takes-merges': {
    file: 'src/cold/shard/tier',
    from: 'this.flusher.owns(object) || this.compactor.owns(object)',
    to: 'this.flusher.owns(object)',
  },
  'merge-keeps-references': {
    file: 'src/cold/state/compact',
    from: 'dropChunks(state, head.incarnation, run, nowMs, GC_MERGED);',
    to: 'dropChunks(state, head.incarnation, run.slice(1), nowMs, GC_MERGED);',
  },
  // What a sweep listed may have become known meanwhile.
  'doom-of-known-objects': {
    file: 'src/cold/state/flush',
    from: 'if (objectKnown(state, object))\n            continue;',
    to: '',
  },
  'pack-counted-short': {
    file: 'src/cold/state/flush',
    from: 'refs: accepted, bytes',
    to: 'refs: Math.min(accepted, Math.max(1, accepted - 1)), bytes',
  },
  'release-counts-double': {
    file: 'src/cold/state/objects',
    from: 'stored.refs -= count;',
    to: 'stored.refs = Math.max(0, stored.refs - 2 * count);',
  },
  'split-shifts-bytes': {
    file: 'src/cold/state/hot',
    from: 'view.copy(from, view.length, row.bytes, 0);',
    to: 'view.copy(Math.max(0, from - 1), view.length - 1, row.bytes, 0);',
  },
  'split-loses-the-rest': {
    file: 'src/cold/state/hot',
    from: 'head.rows.unshift(rest);',
    to: '',
  },
  'forgotten-before-removed': {
    file: 'src/cold/shard/collector',
    from: 'if (answer.error === undefined) {',
    to: 'if (true) {',
  },
  'gc-without-removal': {
    file: 'src/cold/shard/collector',
    from: 'port.remove({ id, keys });',
    to: 'port.remove({ id, keys: keys.slice(1) });',
  },
  'retention-takes-one-more': {
    file: 'src/cold/state/release',
    from: 'if (chunk.end > limit)',
    to: 'if (chunk.start > limit)',
  },
  'floor-without-rows': {
    file: 'src/cold/state/retention',
    from: 'if (offset > head.hotStart)',
    to: 'if (offset > head.hotStart + 1_000_000)',
  },
  'rows-stay': {
    file: 'src/stream/garbage',
    from: 'budget -= deleteRange(tx, from, to, budget);',
    to: 'budget -= deleteRange(tx, from, to, 1);',
  },
  'snapshots-stay': {
    file: 'src/stream/garbage',
    from: 'TAG_ATTRIBUTES, TAG_SNAPSHOT]',
    to: 'TAG_ATTRIBUTES]',
  },
  'orphans-not-found': {
    file: 'src/cold/shard/sweeper',
    from: 'orphans.push({ object, key: listed.key });',
    to: ';',
  },
  'foreign-objects-taken': {
    file: 'src/protocol/object-key',
    from: 'if (origin === undefined || run === undefined || seq === undefined)\n        return undefined;',
    to: "if (origin === undefined || run === undefined || seq === undefined) return { origin: key.slice(6, 22), run: '0'.repeat(16), seq: 1 };",
  },
  'pressure-for-ever': {
    file: 'src/group/admission',
    from: 'const hot = state.hotBytes + uncommitted;',
    to: 'const hot = this.counters.hotBytesHighest + uncommitted;',
  },
  'flushed-bytes-still-counted': {
    file: 'src/cold/state/hot',
    from: 'state.hotBytes -= offset - head.hotStart;',
    to: 'state.hotBytes -= rest === undefined ? offset - head.hotStart : 0;',
  },
  'quota-lets-one-more-in': {
    file: 'src/stream/buckets',
    from: 'bucket.retainedBytes + size > bucket.retainedBytesMax',
    to: 'bucket.retainedBytes > bucket.retainedBytesMax',
  },
  'quota-of-streams-forgotten': {
    file: 'src/stream/create',
    from: 'bucket.streamCount >= bucket.streamsMax',
    to: 'bucket.streamCount > bucket.streamsMax',
  },
  'quota-not-stored': {
    file: 'src/stream/quota',
    from: 'state.buckets.touch(bucket);',
    to: '',
  },
  // A cold read may begin in the chunk behind.
  'plan-skips-a-chunk': {
    file: 'src/cold/state/plan',
    from: 'eachChunk(state, head.incarnation, first.start, (chunk) => {',
    to: 'eachChunk(state, head.incarnation, first.start + 1, (chunk) => { if (chunks.length === 0) end = chunk.start;',
  },
  'fork-cut-short': {
    file: 'src/forks/state/cutter',
    from: 'const cut = anchor + subOffset;',
    to: 'const cut = Math.max(this.at, anchor + subOffset - 1);',
  },
  'half-made-fork-shown': {
    file: 'src/stream/state',
    from: 'head?.forming === true ? undefined : head',
    to: 'head',
  },
  'fork-never-given-up': {
    file: 'src/stream/head',
    from: 'return this.touchedAtMs + FORMING_SILENCE_MS;',
    to: 'return this.touchedAtMs + 1e12;',
  },
  'name-free-while-forks-live': {
    file: 'src/stream/remove',
    from: 'if (hasPins && !erase)',
    to: 'if (hasPins && !erase && unpin !== undefined)',
  },
  'name-kept-for-nobody': {
    file: 'src/forks/state/unpin',
    from: 'if (forks.hasPins(stone.incarnation))',
    to: 'if (stone.incarnation > 0)',
  },
  'living-fork-taken-for-gone': {
    file: 'src/forks/state/unpin',
    from: 'reply.a = kept ||',
    to: 'reply.a = 0 &&',
  },
};

/** What can be planted. */
export const PLANTS: Readonly<Record<string, Mutant>> = { ...MUTANTS, ...BACKUP_VARIANTS };

let registered = false;

/** The simulation with a bug in it. */
export async function mutated(name: string): Promise<typeof simulation> {
  if (PLANTS[name] === undefined) throw new Error(`no such mutant; there are ${Object.keys(PLANTS).join(' ')}`);
  if (!registered) register('./mutant-hooks.js', import.meta.url);
  registered = true;
  return (await import(`./simulation.js?mutant=${name}`)) as typeof simulation;
}
