/**
 * The contract of cold storage: the tasks of the object store, which travel as one type from a shard over the main
 * thread to the thread that performs them, and the port through which shards ask.
 */
import type { ChunkRef } from '../protocol/cold.ts';

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

/** Bytes of an object, as named in a chunk's reference. */
export type StoredRange = Pick<ChunkRef, 'key' | 'at' | 'length' | 'digest'>;

/** Plain data: tasks and outcomes are messages between threads. */
export type ColdTask =
  /** Writes one object. The memory of `body` moves to the thread that writes it. */
  | {
      readonly op: 'put';
      readonly key: string;
      readonly body: Uint8Array<ArrayBuffer>;
      /** Each gets a digest. */
      readonly slices: readonly Extent[];
    }
  /** Reads consecutive ranges of one object and verifies each. */
  | { readonly op: 'get'; readonly refs: readonly StoredRange[] }
  /** Objects under `prefix` in key order, starting after `after`; answers may hold fewer than `limit`. */
  | { readonly op: 'list'; readonly prefix: string; readonly after: string; readonly limit: number }
  /** Deletes objects; one that does not exist counts as deleted. */
  | { readonly op: 'remove'; readonly keys: readonly string[] }
  /** Proves that the store accepts, returns, lists and deletes an object. */
  | { readonly op: 'probe' }
  /** Writes the object `key` with one chunk for each run of chunks. Unreadable runs are omitted. */
  | { readonly op: 'merge'; readonly key: string; readonly slices: readonly MergeSlice[] };

export type ColdOp = ColdTask['op'];

export interface ListedObject {
  readonly key: string;
  readonly bytes: number;
  /** By the clock of the store. */
  readonly writtenAtMs: number;
}

export interface ObjectPage {
  /** Ascending by the bytes of the key. */
  readonly objects: readonly ListedObject[];
  /** There are further ones behind the last of these. */
  readonly more: boolean;
}

/** Where the new chunk lies, or why there is none: a source is missing, or is not what was written. */
export type MergedSlice = (Extent & { readonly digest: Uint8Array }) | { readonly failed: string };

/** The result of a merge. */
export interface MergedObject {
  /** 0: nothing was written. */
  readonly bytes: number;
  /** One for each slice that was asked for. */
  readonly slices: readonly MergedSlice[];
}

/** Results of successful tasks. */
export interface ColdResults {
  /** The concatenated BLAKE3 digests of the slices. */
  readonly put: Uint8Array<ArrayBuffer>;
  /** The ranges, each in its own memory, so that one can be kept without the others. */
  readonly get: readonly Uint8Array<ArrayBuffer>[];
  readonly list: ObjectPage;
  readonly remove: undefined;
  readonly probe: undefined;
  readonly merge: MergedObject;
}

/**
 * Why an operation of the store failed.
 *   missing      there is no such object
 *   denied       the store refuses: credentials, permission, bucket, region, encryption; repeating is useless
 *   unreachable  no answer, or one that says "later"; the outcome of a put is unknown
 *   bad          the object is there but is not what was written: too short, or altered
 */
export type StoreFailure = 'missing' | 'denied' | 'unreachable' | 'bad';

/**
 * `busy`: too many tasks wait. `stopped`: the process is ending. `no-threads`: those of the
 * pool do not start. All three come from the pool itself.
 */
export interface ColdFailure {
  readonly ok: false;
  readonly failure: StoreFailure | 'busy' | 'stopped' | 'no-threads';
  readonly message: string;
}

export type ColdOutcome<Op extends ColdOp = ColdOp> =
  | { readonly ok: true; readonly value: ColdResults[Op] }
  | ColdFailure;

/**
 * The cold store as a shard sees it: each task has its outcome later, exactly once, in any order and in every case. A
 * failure does not mean that nothing was done: a lost answer is a failure too. In the server tasks are messages to the
 * main thread, in the simulator they go to an object store in memory.
 */
export interface ColdPort {
  ask<Task extends ColdTask>(task: Task, onOutcome: (outcome: ColdOutcome<Task['op']>) => void): void;
}

/** The cold store on the main thread: the promise never rejects. */
export interface ColdStorage {
  ask<Task extends ColdTask>(task: Task): Promise<ColdOutcome<Task['op']>>;
}

/** Tells whether all of the chunks, which lie in one object, can be read, and if not, why. Never rejects. */
export type ReadCold = (
  refs: readonly ChunkRef[],
) => Promise<{ readonly ok: true } | { readonly ok: false; readonly message: string }>;

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
