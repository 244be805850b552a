// The cache of chunks and its read-ahead, as a sequential reader meets them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ChunkLoader } from '../../../src/cold/service/chunk-loader.ts';
import type { ChunkRef } from '../../../src/protocol/cold.ts';

const CHUNK_BYTES = 100_000;
const WINDOW = 8;

const CHUNKS: readonly ChunkRef[] = Array.from({ length: 64 }, (_, i) => ({
  key: 'g0000-x/b/i1/1-1',
  start: i,
  end: i + 1,
  lastEnd: i + 1,
  firstRecord: i,
  recordNext: i + 1,
  at: i * CHUNK_BYTES,
  length: CHUNK_BYTES,
  digest: new Uint8Array(32),
}));

interface Pass {
  /** Chunks of each read from the store, in order. */
  readonly reads: readonly number[];
  /** Chunks that the reader had to ask for itself. */
  readonly waits: number;
}

class Rig {
  reads: number[] = [];
  readonly loader: ChunkLoader;

  constructor(cacheChunks: number) {
    const read = async (refs: readonly ChunkRef[]): Promise<{ ok: true; value: Uint8Array<ArrayBuffer>[] }> => {
      this.reads.push(refs.length);
      await setImmediate();
      return { ok: true, value: refs.map(({ length }) => new Uint8Array(length)) };
    };
    this.loader = new ChunkLoader(read, cacheChunks * (CHUNK_BYTES + 1000));
  }

  /** From the first chunk to the last one; what runs ahead arrives before the reader is back. */
  async pass(): Promise<Pass> {
    this.reads = [];
    let waits = 0;
    for (const [i, ref] of CHUNKS.entries()) {
      if (this.loader.cached(ref) === undefined) {
        waits++;
        assert.equal((await this.loader.load(ref)).ok, true);
      }
      this.loader.loadAhead(CHUNKS.slice(i + 1, i + 1 + WINDOW));
      for (let turn = 0; turn < 4; turn++) await setImmediate();
    }
    return { reads: this.reads, waits };
  }
}

test('a reader waits for its first chunk only, and what runs ahead is read some chunks at a time', async () => {
  const { reads, waits } = await new Rig(32).pass();
  assert.equal(waits, 1);
  assert.deepEqual(reads.slice(0, 3), [1, WINDOW, WINDOW / 2]);
  assert.equal(
    reads.reduce((sum, count) => sum + count, 0),
    CHUNKS.length,
    'each chunk once',
  );
  assert(reads.length <= CHUNKS.length / 3, `${reads.length} reads`);
});

test('a second pass over more than fits runs ahead as the first did', async () => {
  for (const cacheChunks of [20, 32, 56, 60, 63]) {
    const rig = new Rig(cacheChunks);
    await rig.pass();
    const { reads, waits } = await rig.pass();
    assert(waits <= 2, `cache for ${cacheChunks}: waited ${waits} times`);
    assert(reads.length <= CHUNKS.length / 3, `cache for ${cacheChunks}: ${reads.length} reads`);
  }
});

test('what fits is read once', async () => {
  const rig = new Rig(CHUNKS.length + 1);
  await rig.pass();
  assert.deepEqual(await rig.pass(), { reads: [], waits: 0 });
});

test('without a cache nothing runs ahead', async () => {
  const { waits } = await new Rig(0).pass();
  assert.equal(waits, CHUNKS.length);
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('a queue that is never empty keeps nothing of what was read', async () => {
  const [chunk] = CHUNKS;
  assert(chunk !== undefined);
  const read: WeakRef<Uint8Array>[] = [];
  const underWay: (() => void)[] = [];
  const loader = new ChunkLoader(
    () =>
      new Promise((resolve) => {
        underWay.push(() => {
          const value = new Uint8Array(1000);
          read.push(new WeakRef(value));
          resolve({ ok: true, value: [value] });
        });
      }),
    0,
  );
  for (let at = 0; at < 300; at++) {
    void loader.load({ ...chunk, at });
    // More than are read at once.
    if (at < 100) continue;
    underWay.shift()?.();
    await setImmediate();
    assert(loader.waiting > 0);
  }
  collectGarbage();
  assert.equal(read.length, 200);
  const kept = read.filter((one) => one.deref() !== undefined);
  assert(kept.length < 5, `${kept.length} of them are kept`);
});
