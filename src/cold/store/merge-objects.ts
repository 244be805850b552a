/**
 * Merges many objects into one: reads runs of chunks, verifies each, and writes one chunk per run. The bytes stay in
 * its thread. The state machine's merge function is passed in.
 */
import { digestOf, sameDigest } from '../../digest/blake3.ts';
import type { ChunkRef } from '../../protocol/cold.ts';
import type { ColdTask, MergeSlice, MergedObject, MergedSlice } from '../ports.ts';
import { type Reading, withoutKey } from './sealed-objects.ts';
import { StoreError, readRange } from './store.ts';

/** Undefined: the chunks are not what their references say. */
export type MergeChunks = (
  incarnation: number,
  refs: readonly ChunkRef[],
  chunks: readonly Uint8Array[],
) => Uint8Array | undefined;

/** Concurrent reads, leaving store and connections to others too. */
const READS_AT_ONCE = 8;
/** Bytes between two chunks of an object that are read rather than making two requests. */
const GAP_BYTES_MAX = 16 * 1024;
/** The sources, the merged chunks, and the object. */
const COPIES = 3;

/** Memory that a merge takes. */
export function mergeBytes(slices: readonly MergeSlice[]): number {
  return COPIES * slices.reduce((sum, { refs }) => sum + refs.reduce((bytes, { length }) => bytes + length, 0), 0);
}

interface Range {
  readonly key: string;
  readonly at: number;
  end: number;
  readonly refs: ChunkRef[];
}

/** A string says why a chunk is unavailable. */
type Chunks = Map<ChunkRef, Uint8Array | string>;

/** Slices with a missing or bad source are omitted; any other failure fails the whole merge. */
export async function mergeObject(
  reading: Reading,
  task: Extract<ColdTask, { readonly op: 'merge' }>,
  merge: MergeChunks,
): Promise<MergedObject> {
  const chunks = await fetchAll(reading, task.slices);
  const merged = task.slices.map((slice) => mergeSlice(slice, chunks, merge));
  const size = merged.reduce((sum, one) => sum + (typeof one === 'string' ? 0 : one.length), 0);
  const body = new Uint8Array(size);
  let end = 0;
  const slices = merged.map((one): MergedSlice => {
    if (typeof one === 'string') return { failed: one };
    const at = end;
    body.set(one, at);
    end += one.length;
    return { at, length: one.length, digest: digestOf(one) };
  });
  if (size > 0) await reading.objects.put(task.key, body);
  return { bytes: size, slices };
}

function mergeSlice({ incarnation, refs }: MergeSlice, chunks: Chunks, merge: MergeChunks): Uint8Array | string {
  const sources: Uint8Array[] = [];
  for (const ref of refs) {
    const chunk = chunks.get(ref);
    if (!(chunk instanceof Uint8Array)) return chunk ?? `${ref.key} was not read`;
    sources.push(chunk);
  }
  return merge(incarnation, refs, sources) ?? `${refs[0]?.key} and what follows do not hold what they should`;
}

async function fetchAll(reading: Reading, slices: readonly MergeSlice[]): Promise<Chunks> {
  const ranges = rangesOf(slices);
  const chunks: Chunks = new Map();
  let next = 0;
  const work = async (): Promise<void> => {
    for (let range; (range = ranges[next++]) !== undefined;) {
      try {
        await fetchRange(reading, range, chunks);
      } catch (error) {
        next = ranges.length;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, work));
  return chunks;
}

/** Chunks of one object that are close to each other are read together: streams flushed together are adjacent. */
function rangesOf(slices: readonly MergeSlice[]): Range[] {
  const refs = slices.flatMap((slice) => slice.refs);
  refs.sort((a, b) => (a.key === b.key ? a.at - b.at : a.key < b.key ? -1 : 1));
  const ranges: Range[] = [];
  for (const ref of refs) {
    const last = ranges.at(-1);
    if (last?.key === ref.key && ref.at <= last.end + GAP_BYTES_MAX) {
      last.end = Math.max(last.end, ref.at + ref.length);
      last.refs.push(ref);
    } else {
      ranges.push({ key: ref.key, at: ref.at, end: ref.at + ref.length, refs: [ref] });
    }
  }
  return ranges;
}

async function fetchRange(reading: Reading, range: Range, chunks: Chunks): Promise<void> {
  let bytes: Uint8Array;
  try {
    bytes = await readRange(reading.objects, range.key, range.at, range.end - range.at);
  } catch (error) {
    if (!(error instanceof StoreError) || (error.failure !== 'missing' && error.failure !== 'bad')) throw error;
    for (const ref of range.refs) chunks.set(ref, error.message);
    return;
  }
  let locked: Promise<string | undefined> | undefined;
  for (const ref of range.refs) {
    const chunk = bytes.subarray(ref.at - range.at, ref.at - range.at + ref.length);
    if (sameDigest(digestOf(chunk), ref.digest)) {
      chunks.set(ref, chunk);
      continue;
    }
    locked ??= withoutKey(reading, ref.key);
    const place = `${ref.key}: bytes ${ref.at} to ${ref.at + ref.length}`;
    chunks.set(ref, (await locked) ?? `${place} are not what was written (BLAKE3 differs)`);
  }
}
