/**
 * Performs tasks in a thread of the pool: errors lose their class between threads, so outcomes are plain data. The
 * probe proves that every operation of the cold tier works: it writes, reads, lists and deletes one small object.
 */
import { randomBytes } from 'node:crypto';
import { DIGEST_BYTES, digestOf, sameDigest } from '../../digest/blake3.ts';
import { Age, type AgeKeys } from '../../encryption/age.ts';
import type { ColdOp, ColdOutcome, ColdResults, ColdTask, Extent, StoredRange } from '../ports.ts';
import { DirStore } from './dir-store.ts';
import { type MergeChunks, mergeObject } from './merge-objects.ts';
import type { S3Options } from './s3-store.ts';
import { type Objects, type Reading, SealedObjects, withoutKey } from './sealed-objects.ts';
import { type ObjectStore, Parts, StoreError, readRange } from './store.ts';

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

/** A thread's means for its tasks. */
export interface Performer extends Reading {
  /** The state machine's merge function. */
  readonly merge: MergeChunks;
}

/** The work of a thread: keys may change between tasks. */
export interface ColdWork {
  readonly task: ColdTask;
  /** Undefined: objects are not encrypted. */
  readonly keys: AgeKeys | undefined;
}

/** The objects of a store by the keys of the last task. */
export class KeyedObjects {
  readonly #store: ObjectStore;
  #keys: string | undefined = '';
  #objects: Promise<Objects>;

  constructor(store: ObjectStore) {
    this.#store = store;
    this.#objects = Promise.resolve(store);
  }

  /** Rejects when the keys cannot be used; the next task tries them again. */
  by(keys: AgeKeys | undefined): Promise<Objects> {
    const text = keys === undefined ? '' : JSON.stringify(keys);
    if (text === this.#keys) return this.#objects;
    this.#keys = text;
    const objects = this.#of(keys);
    objects.catch(() => {
      if (this.#objects === objects) this.#keys = undefined;
    });
    return (this.#objects = objects);
  }

  async #of(keys: AgeKeys | undefined): Promise<Objects> {
    return keys === undefined ? this.#store : new SealedObjects(this.#store, await Age.of(keys));
  }
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

async function run(performer: Performer, task: ColdTask): Promise<ColdResults[ColdOp]> {
  const { store, objects, merge } = performer;
  switch (task.op) {
    case 'put': {
      const digests = digestsOf(task.body, task.slices);
      await objects.put(task.key, task.body);
      return digests;
    }
    case 'get':
      return await readVerified(performer, task.refs);
    case 'list':
      return await store.list(task.prefix, task.after, task.limit);
    case 'remove':
      await store.remove(task.keys);
      return undefined;
    case 'probe':
      await probe(store);
      return undefined;
    case 'merge':
      return await mergeObject(performer, task, merge);
  }
}

async function readVerified(
  reading: Reading,
  refs: readonly StoredRange[],
): Promise<readonly Uint8Array<ArrayBuffer>[]> {
  const [first] = refs;
  if (first === undefined) return [];
  const { key, at: offset } = first;
  const parts = new Parts(refs.map(({ length }) => length));
  await reading.objects.read(key, offset, parts);
  for (const [i, { at, length, digest }] of refs.entries()) {
    if (sameDigest(digestOf(parts.parts[i] as Uint8Array), digest)) continue;
    const place = `${key}: bytes ${at} to ${at + length}`;
    throw new StoreError(
      'bad',
      (await withoutKey(reading, key)) ?? `${place} are not what was written (BLAKE3 differs)`,
    );
  }
  return parts.parts;
}

function digestsOf(body: Uint8Array, slices: readonly Extent[]): Uint8Array<ArrayBuffer> {
  const digests = new Uint8Array(slices.length * DIGEST_BYTES);
  slices.forEach(({ at, length }, i) => digests.set(digestOf(body.subarray(at, at + length)), i * DIGEST_BYTES));
  return digests;
}

/** Separate from the groups' keys; the next probe removes an object that a dying process left here. */
const FOLDER = 'probe/';
const LEFTOVERS_MAX = 100;
const LEFTOVER_MS = 60 * 60_000;

/** Throws StoreError with a sentence that says which operation failed, where, and why. */
export async function probe(store: ObjectStore): Promise<void> {
  const body = new Uint8Array(randomBytes(64));
  const key = `${FOLDER}${randomBytes(12).toString('hex')}`;
  try {
    await steps(store, key, body);
  } catch (error) {
    // The object is removed even when it may not exist, or when deletes failed a moment ago.
    await store.remove([key]).catch(() => undefined);
    throw error;
  }
}

async function steps(store: ObjectStore, key: string, body: Uint8Array): Promise<void> {
  await step('write to', store, () => store.put(key, body));
  await step('read from', store, async () => {
    const read = await readRange(store, key, 16, 32);
    if (!sameDigest(read, body.subarray(16, 48))) throw new StoreError('bad', `${key} came back with other bytes`);
  });
  const old = await step('list', store, async () => {
    const { objects } = await store.list(FOLDER, '', LEFTOVERS_MAX);
    const own = (await store.list(key, '', 1)).objects[0];
    if (own?.key !== key || own.bytes !== body.length)
      throw new StoreError('bad', `${key} was written but is not listed`);
    return objects.filter((object) => object.key !== key && own.writtenAtMs - object.writtenAtMs > LEFTOVER_MS);
  });
  await step('delete from', store, async () => {
    await store.remove([key, ...old.map((object) => object.key)]);
    if ((await store.list(key, '', 1)).objects.length > 0)
      throw new StoreError('bad', `${key} was deleted but is still listed`);
  });
}

async function step<T>(verb: string, store: ObjectStore, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    // A store that loses a fresh object breaks its promise.
    const failure = error.failure === 'missing' ? 'bad' : error.failure;
    throw new StoreError(failure, `cannot ${verb} ${store.place}: ${error.message}`, { cause: error });
  }
}
