/** Performs tasks in a thread of the pool: errors lose their class between threads, so outcomes are plain data. */
import { DIGEST_BYTES, digestOf, sameDigest } from '../../digest/blake3.ts';
import type { ColdOp, ColdOutcome, ColdResults, ColdTask, Extent, StoredRange } from '../ports.ts';
import { DirStore } from './dir-store.ts';
import { type MergeChunks, mergeObject } from './merge-objects.ts';
import { probe } from './probe-store.ts';
import type { S3Options } from './s3-store.ts';
import { type ObjectStore, Parts, StoreError } from './store.ts';

/** Which store to use, as plain data that can be sent to a thread. */
export type Backend =
  | { readonly kind: 'dir'; readonly root: string; readonly directory: string }
  | { readonly kind: 's3'; readonly root: string; readonly s3: S3Options };

/** The SDK is loaded only where it is used: it costs 60 MB and half a second. */
export async function openStore(backend: Backend): Promise<ObjectStore> {
  if (backend.kind === 'dir') return new DirStore(backend.directory, backend.root);
  const { S3Store } = await import('./s3-store.ts');
  return new S3Store(backend.s3, backend.root);
}

/** What a thread performs its tasks with. */
export interface Performer {
  readonly store: ObjectStore;
  readonly signal: AbortSignal;
  /** The state machine's merge function. */
  readonly merge: MergeChunks;
}

/** Never rejects. */
export async function perform(performer: Performer, task: ColdTask): Promise<ColdOutcome> {
  try {
    return { ok: true, value: await run(performer, task) };
  } catch (error) {
    if (error instanceof StoreError) return { ok: false, failure: error.failure, message: error.message };
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { ok: false, failure: 'unreachable', message: `${task.op}: ${message}` };
  }
}

async function run({ store, signal, merge }: Performer, task: ColdTask): Promise<ColdResults[ColdOp]> {
  switch (task.op) {
    case 'put': {
      const digests = digestsOf(task.body, task.slices);
      await store.put(task.key, task.body, signal);
      return digests;
    }
    case 'get':
      return await readVerified(store, task.refs, signal);
    case 'list':
      return await store.list(task.prefix, task.after, task.limit, signal);
    case 'remove':
      await store.remove(task.keys, signal);
      return undefined;
    case 'probe':
      await probe(store, signal);
      return undefined;
    case 'merge':
      return await mergeObject(store, task, signal, merge);
  }
}

async function readVerified(
  store: ObjectStore,
  refs: readonly StoredRange[],
  signal: AbortSignal,
): Promise<readonly Uint8Array<ArrayBuffer>[]> {
  const [first] = refs;
  if (first === undefined) return [];
  const { key, at: offset } = first;
  const parts = new Parts(refs.map(({ length }) => length));
  await store.read(key, offset, parts, signal);
  for (const [i, { at, length, digest }] of refs.entries()) {
    if (sameDigest(digestOf(parts.parts[i] as Uint8Array), digest)) continue;
    throw new StoreError('bad', `${key}: bytes ${at} to ${at + length} are not what was written (BLAKE3 differs)`);
  }
  return parts.parts;
}

function digestsOf(body: Uint8Array, slices: readonly Extent[]): Uint8Array<ArrayBuffer> {
  const digests = new Uint8Array(slices.length * DIGEST_BYTES);
  slices.forEach(({ at, length }, i) => digests.set(digestOf(body.subarray(at, at + length)), i * DIGEST_BYTES));
  return digests;
}
