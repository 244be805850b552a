/**
 * Which chunks a group's leader should merge. A stream that grows slowly leaves one tiny chunk per flush interval, and
 * each is a row, an object and a request for every reader. They are merged in tiers, as in a log-structured tree: runs
 * at the end of a stream become one chunk when that moves all of them to a higher tier. A tier is sixteen times the one
 * below, so a byte is rewritten at most five times; only runs of COMPACT_RUN_MAX, which no tier covers, may add to
 * that.
 */
import { COLD_CHUNK_BYTES, COMPACT_CHUNKS_MAX, COMPACT_RUN_MAX, FLUSH_LIST_BYTES_MAX } from '../../base/limits.ts';
import { type Chunk, type ChunkRef, type Slice, type StoredChunk, sliceBytes } from '../../protocol/cold.ts';
import { RowDamage } from '../../base/row-damage.ts';
import { readText } from '../../base/text.ts';
import type { Head } from '../core/head.ts';
import { END_BYTES } from '../core/row.ts';
import type { State } from '../core/state.ts';
import { eachChunkBack } from './chunks.ts';
import { lastEndOf } from './commands.ts';
import type { DamagedStreams } from './flush-plan.ts';
import { withKeys } from './objects.ts';

/** Chunks of a run that fills the highest tier, so that waiting gains nothing. */
const FULL_RUN_MIN = 4;
const TIER_FACTOR = 16;
/** Chunks of the highest tier cannot be doubled any more. */
const FULL_BYTES = COLD_CHUNK_BYTES / 2;
const FULL_TIER = 5;

/** Additive size of a chunk: its payload and the ends of its messages. */
export function weightOf(chunk: Omit<Chunk, 'at' | 'length' | 'digest'>): number {
  return chunk.end - chunk.start + END_BYTES * (chunk.recordNext - chunk.firstRecord);
}

/** Worth tracking, because it may be merged later. */
export function isSmall(chunk: Omit<Chunk, 'at' | 'length' | 'digest'>): boolean {
  return FULL_RUN_MIN * weightOf(chunk) <= COLD_CHUNK_BYTES;
}

function tierOf(weight: number): number {
  if (weight >= FULL_BYTES) return FULL_TIER;
  let tier = 0;
  for (let bound = TIER_FACTOR; weight >= bound && tier < FULL_TIER - 1; bound *= TIER_FACTOR) tier++;
  return tier;
}

/** Decides, chunk by chunk from a stream's last one backwards, how long a run to merge. */
export class RunChooser {
  /** Length of the longest worthwhile run; 0: none so far. */
  best = 0;
  #count = 0;
  #weight = 0;
  #tier = 0;
  readonly #least: number;

  /** Runs have at least `least` chunks. */
  constructor(least: number) {
    this.#least = least;
  }

  /** False: the run cannot become longer. */
  add(weight: number): boolean {
    if (this.#weight + weight > COLD_CHUNK_BYTES) return false;
    this.#weight += weight;
    this.#tier = Math.max(this.#tier, tierOf(weight));
    const count = ++this.#count;
    const tier = tierOf(this.#weight);
    const isLong = count >= this.#least || (tier === FULL_TIER && count >= FULL_RUN_MIN);
    // Small chunks between larger ones can make a run long before its sum reaches a higher tier.
    if ((isLong && tier > this.#tier) || count === COMPACT_RUN_MAX) this.best = count;
    return count < COMPACT_RUN_MAX;
  }
}

/** A chunk to create, and its sources. */
export interface CompactSlice extends Omit<Slice, 'at' | 'length' | 'digest'> {
  readonly refs: readonly ChunkRef[];
}

export interface CompactPlan {
  readonly bucket: string;
  /** The only stream in the object; 0 = several. */
  readonly incarnation: number;
  readonly slices: readonly CompactSlice[];
}

export interface CompactLimits {
  /** Size of the object. */
  readonly maxBytes: number;
  /** Number of chunk rows to examine. */
  readonly looks: number;
  /** Minimum chunks of a run. */
  readonly least: number;
  /** Hears of streams with rows that the disk changed, which are left out. Undefined: that is thrown. */
  readonly damaged?: Pick<DamagedStreams, 'add'>;
}

export interface Choice {
  readonly plan: CompactPlan | undefined;
  /** How many of the streams were examined. */
  readonly looked: number;
}

/** Examines streams of one bucket, in order, up to the size of one job. */
export function nextCompaction(state: State, streams: readonly Uint8Array[], limits: CompactLimits): Choice {
  const slices: CompactSlice[] = [];
  let { looks } = limits;
  let chunksLeft = COMPACT_CHUNKS_MAX;
  let bytesLeft = limits.maxBytes;
  let listLeft = FLUSH_LIST_BYTES_MAX;
  let looked = 0;
  for (const stream of streams) {
    let head: Head | undefined;
    try {
      head = state.findAny(stream, 0, stream.length);
      const { run, seen } = head === undefined ? { run: [], seen: 1 } : chooseRun(state, head, limits.least);
      looks -= seen;
      if (head !== undefined && run.length > 0) {
        const weight = run.reduce((sum, chunk) => sum + weightOf(chunk), 0);
        if (slices.length > 0 && (run.length > chunksLeft || weight > bytesLeft)) break;
        slices.push(sliceOf(state, head, stream, run));
        chunksLeft -= run.length;
        bytesLeft -= weight;
        listLeft -= sliceBytes(stream.length);
      }
    } catch (error) {
      if (!(error instanceof RowDamage) || limits.damaged === undefined) throw error;
      if (head !== undefined) limits.damaged.add(head.incarnation);
      // As many as it may have read for nothing.
      looks -= COMPACT_RUN_MAX;
    }
    looked++;
    if (looks <= 0 || listLeft <= 0) break;
  }
  const [first] = slices;
  if (first === undefined) return { plan: undefined, looked };
  const bucket = readText(first.stream, 0, first.stream.indexOf(0));
  return { plan: { bucket, incarnation: slices.length === 1 ? first.incarnation : 0, slices }, looked };
}

function chooseRun(state: State, head: Head, least: number): { run: StoredChunk[]; seen: number } {
  const chooser = new RunChooser(least);
  const chunks: StoredChunk[] = [];
  eachChunkBack(state, head.incarnation, head.hotStart, (chunk) => {
    // Chunks below the start offset will be released.
    if (chunk.end <= head.startOffset) return false;
    chunks.push(chunk);
    return chooser.add(weightOf(chunk));
  });
  return { run: chunks.slice(0, chooser.best).reverse(), seen: chunks.length + 1 };
}

/** Result of merging a run of at least one chunk. */
export function sliceOf(state: State, head: Head, stream: Uint8Array, run: readonly StoredChunk[]): CompactSlice {
  const { start, firstRecord } = run[0] as StoredChunk;
  const { end, recordNext } = run[run.length - 1] as StoredChunk;
  const refs = withKeys(state, run);
  return { stream, incarnation: head.incarnation, start, end, firstRecord, recordNext, lastEnd: lastEndOf(run), refs };
}
