/** Proves that every operation of the cold tier works: write, read, list and delete one small object. */
import { randomBytes } from 'node:crypto';
import { sameDigest } from '../../digest/blake3.ts';
import { type ObjectStore, StoreError } from './store.ts';

/** Separate from the groups' keys; the next probe removes an object that a dying process left here. */
const FOLDER = 'probe/';
const LEFTOVERS_MAX = 100;
const LEFTOVER_MS = 60 * 60_000;

/** Throws StoreError with a sentence that says which operation failed, where, and why. */
export async function probe(store: ObjectStore, signal: AbortSignal): Promise<void> {
  const body = new Uint8Array(randomBytes(64));
  const key = `${FOLDER}${randomBytes(12).toString('hex')}`;
  try {
    await steps(store, key, body, signal);
  } catch (error) {
    // Also when it is unknown whether the object exists, and when deletes failed a moment ago.
    await store.remove([key], signal).catch(() => undefined);
    throw error;
  }
}

async function steps(store: ObjectStore, key: string, body: Uint8Array, signal: AbortSignal): Promise<void> {
  await step('write to', store, () => store.put(key, body, signal));
  await step('read from', store, async () => {
    const read = await store.get(key, 16, 32, signal);
    if (!sameDigest(read, body.subarray(16, 48))) throw new StoreError('bad', `${key} came back with other bytes`);
  });
  const old = await step('list', store, async () => {
    const { objects } = await store.list(FOLDER, '', LEFTOVERS_MAX, signal);
    const own = (await store.list(key, '', 1, signal)).objects[0];
    if (own?.key !== key || own.bytes !== body.length)
      throw new StoreError('bad', `${key} was written but is not listed`);
    return objects.filter((object) => object.key !== key && own.writtenAtMs - object.writtenAtMs > LEFTOVER_MS);
  });
  await step('delete from', store, async () => {
    await store.remove([key, ...old.map((object) => object.key)], signal);
    if ((await store.list(key, '', 1, signal)).objects.length > 0)
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
