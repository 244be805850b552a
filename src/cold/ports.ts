/** What cold storage offers to other features. */
import type { ChunkRef } from '../protocol/cold.ts';

/** Whether all of the chunks can be read, otherwise why not. Never rejects. */
export type ReadCold = (
  refs: readonly ChunkRef[],
) => Promise<{ readonly ok: true } | { readonly ok: false; readonly message: string }>;

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  /** By the clock of the store. */
  readonly writtenAtMs: number;
}

/** Place of a slice in an object. */
export interface Extent {
  readonly at: number;
  readonly length: number;
}

/** A run of one stream's chunks, which a merge makes one. */
export interface MergeSlice {
  readonly incarnation: number;
  readonly refs: readonly ChunkRef[];
}

/** Where the new chunk lies, or why there is none: a source is missing, or is not what was written. */
export type MergedSlice = (Extent & { readonly digest: Uint8Array }) | { readonly failed: string };

/** What a merge wrote. */
export interface MergedObject {
  /** 0: nothing was written. */
  readonly bytes: number;
  /** One for each slice that was asked for. */
  readonly slices: readonly MergedSlice[];
}
