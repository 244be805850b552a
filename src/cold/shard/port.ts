import type { ChunkRef } from '../../protocol/cold.ts';

/**
 * The cold store as a shard sees it: it asks, and is answered later, exactly once per id, in any order and whatever
 * happened. An error does not say that nothing was done: a lost answer is an error too. In the server the calls are messages
 * to the main thread (src/cold/service/cold-service.ts), in the simulator an object store in memory.
 */
export interface ColdPort {
  /** Writes one object and digests its slices. `body` is the port's from now on: its memory goes to another thread. */
  upload(request: UploadRequest): void;
  /** Deletes objects; one that does not exist counts as deleted. */
  remove(request: RemoveRequest): void;
  /** Objects under `prefix` in the order of their keys, from behind `after` on. */
  list(request: ListRequest): void;
  /** Writes one object that holds one chunk for each run of chunks. What cannot be read is left out. */
  merge(request: MergeRequest): void;
}

/** A part of an object that gets a digest of its own. */
export interface Part {
  readonly at: number;
  readonly length: number;
}

export interface UploadRequest {
  readonly id: number;
  readonly key: string;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly parts: readonly Part[];
}

export interface RemoveRequest {
  readonly id: number;
  readonly keys: readonly string[];
}

export interface ListRequest {
  readonly id: number;
  readonly prefix: string;
  /** Empty: from the beginning. */
  readonly after: string;
  /** Answers may hold fewer. */
  readonly limit: number;
}

/** A run of one stream's chunks. */
export interface MergeSlice {
  readonly incarnation: number;
  readonly refs: readonly ChunkRef[];
}

export interface MergeRequest {
  readonly id: number;
  readonly key: string;
  readonly slices: readonly MergeSlice[];
}

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  /** When it was written, by the clock of the store. */
  readonly writtenAtMs: number;
}

/** BLAKE3 of each part, or a sentence. */
export type UploadAnswer = { readonly digests: readonly Uint8Array[] } | { readonly error: string };
export type RemoveAnswer = { readonly error?: string };
/** `next`: continue behind this key; undefined at the end. */
export type ListAnswer =
  | { readonly objects: readonly ListedObject[]; readonly next: string | undefined }
  | { readonly error: string };

/** Where the chunk lies, or why there is none: a source is missing, or is not what was written. */
export type MergedSlice = (Part & { readonly digest: Uint8Array }) | { readonly failed: string };
/** One for each slice that was asked for. `bytes`: size of the object; 0 = none was written. */
export type MergeAnswer =
  | { readonly bytes: number; readonly slices: readonly MergedSlice[] }
  | { readonly error: string };

/** How a shard uses its cold store; the keys of storage.cold (src/config). */
export interface ColdSettings {
  /** 16 hex digits, drawn for this run of this shard: object ids of no other shard or run begin with it. */
  readonly run: string;
  /** Hot bytes of a stream are moved when they are this old, */
  readonly flushIntervalMs: number;
  /** or when the group has so many of them. */
  readonly flushBytes: number;
  /** Size of one object. */
  readonly flushBytesMax: number;
  /** Uploads of this shard at once, each of another group. */
  readonly uploadsMax: number;
  /** 0: no bound. */
  readonly hotBytesMax: number;
  readonly gcIntervalMs: number;
  readonly gcEntriesMax: number;
  /** Objects that nothing refers to any more are kept for so long: a slow read may still be using them. */
  readonly gcGraceMs: number;
  /** Those whose bytes live on in others, because small chunks were merged: backups may refer to them. */
  readonly mergedGraceMs: number;
  readonly sweepIntervalMs: number;
  /** Objects younger than this are not taken for orphans. */
  readonly sweepGraceMs: number;
  /** So many small chunks of a stream, at least, are merged; 0: none are. */
  readonly compactRunMin: number;
}
