/** The tasks of the pool's threads, as plain data in both directions: errors lose their class between threads. */
import { DIGEST_BYTES, digestOf, sameDigest } from '../../digest/blake3.ts';
import type { Extent, MergeSlice, MergedObject } from '../ports.ts';
import { type MergeChunks, mergeObject } from '../store/merge-objects.ts';
import { type ObjectPage, type ObjectStore, Parts, StoreError, type StoreFailure } from '../store/store.ts';
import { probe } from '../store/probe-store.ts';

interface Put {
  readonly op: 'put';
  readonly key: string;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly slices: readonly Extent[];
}

interface Get {
  readonly op: 'get';
  readonly key: string;
  readonly offset: number;
  /** Lengths of the consecutive parts from there on; each is verified. */
  readonly lengths: readonly number[];
  /** The concatenated BLAKE3 digests of the parts. */
  readonly digests: Uint8Array;
}

interface List {
  readonly op: 'list';
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

interface Remove {
  readonly op: 'remove';
  readonly keys: readonly string[];
}

interface Probe {
  readonly op: 'probe';
}

interface Merge {
  readonly op: 'merge';
  /** Key of the object to write. */
  readonly key: string;
  readonly slices: readonly MergeSlice[];
}

export type ColdTask = Put | Get | List | Remove | Probe | Merge;

/** Results of successful tasks. */
export interface ColdResults {
  /** The concatenated BLAKE3 digests of the slices. */
  readonly put: Uint8Array<ArrayBuffer>;
  /** The parts, each in its own memory, so that one can be kept without the others. */
  readonly get: readonly Uint8Array<ArrayBuffer>[];
  readonly list: ObjectPage;
  readonly remove: undefined;
  readonly probe: undefined;
  readonly merge: MergedObject;
}

/**
 * `busy`: too many tasks wait. `stopped`: the process is ending. `no-threads`: those of the pool do not start. All three
 * come from the pool itself.
 */
export interface Failed {
  readonly ok: false;
  readonly failure: StoreFailure | 'busy' | 'stopped' | 'no-threads';
  readonly message: string;
}

export type ColdOutcome<Op extends ColdTask['op']> = { readonly ok: true; readonly value: ColdResults[Op] } | Failed;

/** Never rejects. */
export async function perform(
  store: ObjectStore,
  task: ColdTask,
  signal: AbortSignal,
  merge: MergeChunks,
): Promise<ColdOutcome<ColdTask['op']>> {
  try {
    return { ok: true, value: await run(store, task, signal, merge) };
  } catch (error) {
    if (error instanceof StoreError) return { ok: false, failure: error.failure, message: error.message };
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { ok: false, failure: 'unreachable', message: `${task.op}: ${message}` };
  }
}

async function run(
  store: ObjectStore,
  task: ColdTask,
  signal: AbortSignal,
  merge: MergeChunks,
): Promise<ColdResults[ColdTask['op']]> {
  switch (task.op) {
    case 'put': {
      const digests = digestsOf(task.body, task.slices);
      await store.put(task.key, task.body, signal);
      return digests;
    }
    case 'get': {
      const parts = new Parts(task.lengths);
      await store.read(task.key, task.offset, parts, signal);
      return verified(task, parts.parts);
    }
    case 'list':
      return store.list(task.prefix, task.after, task.limit, signal);
    case 'remove':
      await store.remove(task.keys, signal);
      return undefined;
    case 'probe':
      await probe(store, signal);
      return undefined;
    case 'merge':
      return mergeObject(store, task, signal, merge);
  }
}

function verified(
  { key, offset, digests }: Get,
  parts: readonly Uint8Array<ArrayBuffer>[],
): readonly Uint8Array<ArrayBuffer>[] {
  let at = offset;
  for (const [i, part] of parts.entries()) {
    if (!sameDigest(digestOf(part), digests.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES))) {
      const range = `bytes ${at} to ${at + part.length}`;
      throw new StoreError('bad', `${key}: ${range} are not what was written (BLAKE3 differs)`);
    }
    at += part.length;
  }
  return parts;
}

function digestsOf(body: Uint8Array, slices: readonly Extent[]): Uint8Array<ArrayBuffer> {
  const digests = new Uint8Array(slices.length * DIGEST_BYTES);
  slices.forEach(({ at, length }, i) => digests.set(digestOf(body.subarray(at, at + length)), i * DIGEST_BYTES));
  return digests;
}
