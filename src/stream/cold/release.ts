/**
 * Releases references to chunks: all of a removed stream, those below the start offset of a live one. A command
 * releases a bounded number (State.releaseLeft); the rest waits in the release queue for the sweeps.
 */
import { planted } from '../../base/planted.ts';
import { f64OrNone, struct, u8 } from '../../base/struct.ts';
import { TAG, anyRow, incarnationKey, prefixEnd, incarnationOf, taggedKey } from '../core/keys.ts';
import type { StoredChunk } from '../../protocol/cold.ts';
import type { State } from '../core/state.ts';
import { deleteChunk, eachChunk } from './chunks.ts';
import { GC_IMMEDIATE, GC_USUAL, type GcClass, releaseObject, sameObject } from './objects.ts';

/** `limit` -1: all. `immediate` 1: without grace. */
export const RELEASE_ROW = struct({ limit: f64OrNone, immediate: u8 });
/** Entries that one sweep examines. */
const ENTRIES_MAX = 64;

/** Releases the chunks of `incarnation` that end at or below `limit` (Infinity = all): some now, the rest later. */
export function releaseChunks(
  state: State,
  incarnation: number,
  limit: number,
  nowMs: number,
  immediate: boolean,
): void {
  if (releaseSome(state, incarnation, limit, nowMs, immediate)) return;
  const row = RELEASE_ROW.encode({ limit: limit === Infinity ? -1 : limit, immediate: immediate ? 1 : 0 });
  state.overlay.put(incarnationKey(state.prefix, TAG.release, incarnation), row);
}

/** True: none is left. */
function releaseSome(state: State, incarnation: number, limit: number, nowMs: number, immediate: boolean): boolean {
  const chunks: StoredChunk[] = [];
  let done = true;
  eachChunk(state, incarnation, 0, (chunk) => {
    if ((planted('retention-takes-one-more') ? chunk.start : chunk.end) > limit) return false;
    done = chunks.length < state.releaseLeft;
    if (done) chunks.push(chunk);
    return done;
  });
  state.releaseLeft -= chunks.length;
  dropChunks(state, incarnation, chunks, nowMs, immediate ? GC_IMMEDIATE : GC_USUAL);
  return done;
}

/** Deletes the rows of the chunks; an object that loses its last reference becomes garbage. */
export function dropChunks(
  state: State,
  incarnation: number,
  chunks: readonly StoredChunk[],
  nowMs: number,
  gcClass: GcClass,
): void {
  for (let i = 0; i < chunks.length;) {
    const { object } = chunks[i] as StoredChunk;
    let count = 0;
    for (; i < chunks.length && sameObject((chunks[i] as StoredChunk).object, object); i++, count++) {
      deleteChunk(state, incarnation, chunks[i] as StoredChunk);
    }
    releaseObject(state, object, count, nowMs, gcClass);
  }
}

/** Continues what earlier commands left, up to `budget` chunks; true when more is left. */
export function continueReleases(state: State, nowMs: number, budget: number): boolean {
  state.releaseLeft = budget;
  const start = taggedKey(state.prefix, TAG.release);
  const entries: { readonly incarnation: number; readonly limit: number; readonly immediate: boolean }[] = [];
  state.overlay.range(start, prefixEnd(start), false, (key, row) => {
    const { limit, immediate } = RELEASE_ROW.decode(row);
    entries.push({ incarnation: incarnationOf(key), limit: limit < 0 ? Infinity : limit, immediate: immediate === 1 });
    return entries.length < ENTRIES_MAX;
  });
  for (const { incarnation, limit, immediate } of entries) {
    if (!releaseSome(state, incarnation, limit, nowMs, immediate)) return true;
    state.overlay.delete(incarnationKey(state.prefix, TAG.release, incarnation));
  }
  return entries.length === ENTRIES_MAX;
}

export function releaseDue(state: State): boolean {
  return anyRow(state.overlay, taggedKey(state.prefix, TAG.release));
}
