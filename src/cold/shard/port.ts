import type { Extent, ListedObject, MergeSlice, MergedObject } from '../ports.ts';

/**
 * The cold store as a shard sees it: requests are answered later, exactly once per id, in any order and in every case.
 * An error does not mean that nothing was done: a lost answer is an error too. In the server the calls are messages to
 * the main thread (src/cold/service/cold-service.ts), in the simulator an object store in memory.
 */
export interface ColdPort {
  /** Writes one object and digests its slices. The port takes `body`: its memory moves to another thread. */
  upload(request: UploadRequest): void;
  /** Deletes objects; one that does not exist counts as deleted. */
  remove(request: RemoveRequest): void;
  /** Objects under `prefix` in key order, starting after `after`. */
  list(request: ListRequest): void;
  /** Writes one object with one chunk for each run of chunks. Unreadable runs are omitted. */
  merge(request: MergeRequest): void;
}

export interface UploadRequest {
  readonly id: number;
  readonly key: string;
  readonly body: Uint8Array<ArrayBuffer>;
  /** Each gets a digest. */
  readonly slices: readonly Extent[];
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

export interface MergeRequest {
  readonly id: number;
  readonly key: string;
  readonly slices: readonly MergeSlice[];
}

/** BLAKE3 of each slice, or a sentence. */
export type UploadAnswer = { readonly digests: readonly Uint8Array[] } | { readonly error: string };
export type RemoveAnswer = { readonly error?: string };
/** `next`: continue after this key; undefined at the end. */
export type ListAnswer =
  | { readonly objects: readonly ListedObject[]; readonly next: string | undefined }
  | { readonly error: string };

export type MergeAnswer = MergedObject | { readonly error: string };

/** How a shard uses its cold store; the keys of storage.cold (src/config). */
export interface ColdSettings {
  /** 16 hex digits, drawn for this run of this shard: object ids of no other shard or run begin with it. */
  readonly run: string;
  /** Hot bytes of a stream are moved when they reach this age, */
  readonly flushIntervalMs: number;
  /** or when the group has this many of them. */
  readonly flushBytes: number;
  /** Size of one object. */
  readonly flushBytesMax: number;
  /** Concurrent uploads of this shard, each of another group. */
  readonly uploadsMax: number;
  /** 0: no bound. */
  readonly hotBytesMax: number;
  readonly gcIntervalMs: number;
  readonly gcEntriesMax: number;
  /** How long unreferenced objects are kept, because a slow read may still use them. */
  readonly gcGraceMs: number;
  /** The same for objects whose small chunks were merged into others, because backups may refer to them. */
  readonly mergedGraceMs: number;
  readonly sweepIntervalMs: number;
  /** Younger objects never count as orphans. */
  readonly sweepGraceMs: number;
  /** Minimum number of small chunks of a stream to merge; 0 disables merging. */
  readonly compactRunMin: number;
}
