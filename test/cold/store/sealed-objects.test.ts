// Encrypted objects in each kind of store: ranges of them, beside older ones and those of other keys, and whatever the
// owner of the store may do to them.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import type { ColdOutcome, MergedObject, MergedSlice } from '../../../src/cold/ports.ts';
import type { MergeChunks } from '../../../src/cold/store/merge-objects.ts';
import { KeyedObjects, perform } from '../../../src/cold/store/perform.ts';
import { type ObjectStore, StoreError } from '../../../src/cold/store/store.ts';
import { digestOf } from '../../../src/digest/blake3.ts';
import { Age, type AgeKeys, headerEnd, isAge } from '../../../src/encryption/age.ts';
import type { ChunkRef } from '../../../src/protocol/cold.ts';
import { CHUNK_BYTES, SALT_BYTES, SEALED_CHUNK_BYTES } from '../../../src/encryption/payload.ts';
import { directory, s3 } from './backends.ts';
import { sameBytes } from '../../support/same-bytes.ts';

const MIB = 1024 * 1024;
/** Not multiples of anything. */
const SMALL = 5_003;
const LARGE = 3 * MIB + 17;

async function newKeys(...older: readonly AgeKeys[]): Promise<AgeKeys> {
  const identity = await generateX25519Identity();
  return {
    identities: [identity, ...older.flatMap(({ identities }) => identities)],
    recipients: [await identityToRecipient(identity)],
  };
}

interface Asked {
  readonly key: string;
  readonly body: Uint8Array;
  readonly at: number;
  readonly length: number;
}

/** A thread of the pool at work. Bytes are verified by the digests that the state machine has of them. */
class Thread {
  readonly #store: ObjectStore;
  readonly #keyed: KeyedObjects;

  constructor(store: ObjectStore) {
    this.#store = store;
    this.#keyed = new KeyedObjects(store);
  }

  async put(keys: AgeKeys | undefined, key: string, body: Uint8Array): Promise<void> {
    const objects = await this.#keyed.by(keys);
    const task = { op: 'put', key, body: Uint8Array.from(body), slices: [{ at: 0, length: body.length }] } as const;
    const outcome = await perform({ store: this.#store, objects, merge: () => undefined }, task);
    assert(outcome.ok, JSON.stringify(outcome));
    assert.deepEqual(outcome.value, digestOf(body), 'digests are those of what was put');
  }

  async get(keys: AgeKeys | undefined, { key, body, at, length }: Asked): Promise<ColdOutcome> {
    const objects = await this.#keyed.by(keys);
    const refs = [{ key, at, length, digest: digestOf(body.subarray(at, at + length)) }];
    return await perform({ store: this.#store, objects, merge: () => undefined }, { op: 'get', refs });
  }

  /** One run of whole objects, which a merge puts one behind the other. */
  async merge(
    keys: AgeKeys | undefined,
    key: string,
    sources: readonly Pick<Asked, 'key' | 'body'>[],
  ): Promise<readonly MergedSlice[]> {
    const refs = sources.map((one, n): ChunkRef => {
      const place = { key: one.key, at: 0, length: one.body.length, digest: digestOf(one.body) };
      return { ...place, start: n, end: n + 1, lastEnd: n + 1, firstRecord: n, recordNext: n + 1 };
    });
    const performer = { store: this.#store, objects: await this.#keyed.by(keys), merge: joined };
    const outcome = await perform(performer, { op: 'merge', key, slices: [{ incarnation: 1, refs }] });
    assert(outcome.ok, JSON.stringify(outcome));
    return (outcome.value as MergedObject).slices;
  }

  async reads(keys: AgeKeys | undefined, asked: Asked): Promise<void> {
    const outcome = await this.get(keys, asked);
    // Only then: megabytes of a good one in JSON take a second.
    if (!outcome.ok) assert.fail(JSON.stringify(outcome));
    const [bytes] = outcome.value as readonly Uint8Array[];
    sameBytes(bytes, asked.body.subarray(asked.at, asked.at + asked.length));
    assert.equal(bytes?.buffer.byteLength, asked.length, 'memory of its own, so that it can be sent to another thread');
  }

  async refuses(keys: AgeKeys | undefined, asked: Asked, why: RegExp): Promise<void> {
    const outcome = await this.get(keys, asked);
    assert(!outcome.ok && outcome.failure === 'bad', `${asked.key} from ${asked.at}: ${JSON.stringify(outcome)}`);
    assert.match(outcome.message, why);
    assert(outcome.message.startsWith(asked.key), outcome.message);
  }
}

const joined: MergeChunks = (_incarnation, _refs, chunks) => new Uint8Array(Buffer.concat(chunks));
const bytesOf = (size: number): Uint8Array => new Uint8Array(randomBytes(size));

const whole = (key: string, body: Uint8Array): Asked => ({ key, body, at: 0, length: body.length });

it('keys that could not be used once are tried again', async (t) => {
  const backend = directory();
  await backend.start();
  const store = await backend.open('some/root');
  try {
    const keyed = new KeyedObjects(store);
    const keys = await newKeys();
    const of = t.mock.method(Age, 'of', () => Promise.reject(new Error('too many open files')), { times: 1 });
    await assert.rejects(keyed.by(keys), /too many open files/);
    const objects = await keyed.by(keys);
    assert.notEqual(objects, store);
    assert.equal(await keyed.by(keys), objects);
    assert.equal(await keyed.by(undefined), store);
    assert.equal(of.mock.callCount(), 1);
  } finally {
    store.close();
    await backend.stop();
  }
});

for (const backend of [directory(), s3()]) {
  describe(`encrypted objects: ${backend.name}`, { skip: backend.skip ?? false }, () => {
    let store: ObjectStore;
    let thread: Thread;
    before(async () => {
      await backend.start();
      store = await backend.open('some/root');
      thread = new Thread(store);
    });
    after(async () => {
      store.close();
      await backend.stop();
    });

    const rawBytes = (key: string): Promise<Uint8Array> => store.readUpTo(key, 0, 2 * LARGE);

    it('gives any range, of small and of large ones', async () => {
      const keys = await newKeys();
      for (const size of [1, SMALL, CHUNK_BYTES, 4 * CHUNK_BYTES, 4 * CHUNK_BYTES + 1, LARGE]) {
        const [key, body] = [`ranges/${size}`, new Uint8Array(randomBytes(size))];
        await thread.put(keys, key, body);
        assert(isAge(await rawBytes(key)));
        for (const at of [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, size - 70_000, size - 1].filter(
          (one) => one >= 0 && one < size,
        ))
          for (const length of new Set([1, 100, 65_536, 70_000, size - at].map((one) => Math.min(one, size - at))))
            await thread.reads(keys, { key, body, at, length });
      }
    });

    it('reads what was written before there were keys, and for keys that came before these', async () => {
      const first = await newKeys();
      const second = await newKeys(first);
      for (const size of [SMALL, LARGE]) {
        const body = new Uint8Array(randomBytes(size));
        await thread.put(undefined, `plain/${size}`, body);
        sameBytes(await rawBytes(`plain/${size}`), body, 'without keys byte for byte what it was');
        await thread.put(first, `first/${size}`, body);
        await thread.put({ ...second, recipients: [] }, `reads/${size}`, body);
        sameBytes(await rawBytes(`reads/${size}`), body, 'without a recipient as well');
        for (const key of ['plain', 'first', 'reads']) {
          await thread.reads(second, whole(`${key}/${size}`, body));
          await thread.reads(second, { key: `${key}/${size}`, body, at: size - 1000, length: 1000 });
        }
        await thread.put(second, `second/${size}`, body);
        await thread.refuses(first, whole(`second/${size}`, body), /none of 1 identities opens it/);
        await thread.refuses(undefined, whole(`second/${size}`, body), /no storage.cold.encryption_identity_file/);
        // An object that could not be opened is asked for again, as an operator adds the key.
        await thread.reads(second, whole(`second/${size}`, body));
      }
    });

    it('merges plain objects and those for two keys into one for the newest; what cannot be opened says why', async () => {
      const first = await newKeys();
      const second = await newKeys(first);
      const kinds = [undefined, first, second].map((keys, i) => ({ keys, key: `merged/${i}`, body: bytesOf(SMALL) }));
      for (const { keys, key, body } of kinds) await thread.put(keys, key, body);
      const all = Buffer.concat(kinds.map(({ body }) => body));
      const [good] = await thread.merge(second, 'merged/good', kinds);
      assert(good !== undefined && !('failed' in good), JSON.stringify(good));
      await thread.reads(second, whole('merged/good', new Uint8Array(all)));
      await thread.refuses(first, whole('merged/good', all), /none of 1 identities opens it/);
      for (const [keys, key, why] of [
        [undefined, 'merged/1', /this node has no storage\.cold\.encryption_identity_file/],
        [first, 'merged/2', /it is encrypted, and none of 1 identities opens it/],
      ] as const) {
        const [bad] = await thread.merge(keys, 'merged/bad', kinds);
        assert(bad !== undefined && 'failed' in bad && bad.failed.startsWith(`${key}: `), JSON.stringify(bad));
        assert.match(bad.failed, why);
        await assert.rejects(rawBytes('merged/bad'), { failure: 'missing' });
      }
    });

    it('leaves out only the slice whose bytes are wrong when the store cannot say any more why', async (t) => {
      const [key, body] = ['unsure/1', bytesOf(SMALL)];
      await thread.put(undefined, key, bytesOf(SMALL));
      const readUpTo = t.mock.method(store, 'readUpTo', () => Promise.reject(new StoreError('unreachable', 'gone')));
      const [slice] = await thread.merge(undefined, 'unsure/merged', [{ key, body }]);
      assert(slice !== undefined && 'failed' in slice, JSON.stringify(slice));
      assert.match(slice.failed, /^unsure\/1: bytes 0 to 5003 are not what was written \(BLAKE3 differs\)$/);
      await thread.refuses(undefined, whole(key, body), /BLAKE3 differs/);
      assert.equal(readUpTo.mock.callCount(), 2);
    });

    it('refuses what was changed, cut off, swapped or put together', async () => {
      const keys = await newKeys();
      for (const size of [2 * CHUNK_BYTES, LARGE]) {
        const [body, other] = [new Uint8Array(randomBytes(size)), new Uint8Array(randomBytes(size))];
        await thread.put(keys, `good/${size}`, body);
        await thread.put(keys, `other/${size}`, other);
        const [good, foreign] = [await rawBytes(`good/${size}`), await rawBytes(`other/${size}`)];
        const chunksAt = (headerEnd(good) ?? 0) + SALT_BYTES;
        let count = 0;
        const refuses = async (planted: Uint8Array, why: RegExp): Promise<void> => {
          const key = `planted/${size}-${count++}`;
          await store.put(key, planted);
          await thread.refuses(keys, whole(key, body), why);
        };
        for (const at of [0, 30, 60, 130, chunksAt - 1, chunksAt, chunksAt + CHUNK_BYTES + 500, good.length - 1]) {
          const changed = Uint8Array.from(good);
          changed[at] = (changed[at] ?? 0) ^ 1;
          await refuses(changed, at === 0 ? /BLAKE3 differs/ : /altered|none of 1 identities|not what was written/);
        }
        for (const bytes of [100, chunksAt - 1, chunksAt + SEALED_CHUNK_BYTES, good.length - 1])
          await refuses(good.subarray(0, bytes), /cut off|the object ends at byte/);
        const chunk = (i: number): Uint8Array =>
          good.subarray(chunksAt + i * SEALED_CHUNK_BYTES).subarray(0, SEALED_CHUNK_BYTES);
        const rest = good.subarray(chunksAt + 2 * SEALED_CHUNK_BYTES);
        await refuses(Buffer.concat([good.subarray(0, chunksAt), chunk(1), chunk(0), rest]), /altered or cut off/);
        await refuses(foreign, /BLAKE3 differs/);
      }
    });
  });
}

it('readers of an object ask for its beginning once', async () => {
  const backend = directory();
  await backend.start();
  try {
    const store = await backend.open('');
    const [keys, body] = [await newKeys(), new Uint8Array(randomBytes(LARGE))];
    const thread = new Thread(store);
    await thread.put(keys, 'large', body);
    const asked: number[] = [];
    const read = store.readUpTo.bind(store);
    store.readUpTo = (key, offset, bytesMax) => {
      asked.push(offset);
      return read(key, offset, bytesMax);
    };
    const ranges = [MIB, 2 * MIB, 0].map((at) => ({ key: 'large', body, at, length: MIB }));
    await Promise.all(ranges.map((one) => thread.reads(keys, one)));
    assert.equal(asked.filter((offset) => offset === 0).length, 1);
    for (const one of ranges) await thread.reads(keys, one);
    assert.equal(asked.length, 2 * ranges.length + 1);
  } finally {
    await backend.stop();
  }
});
