// Merging in the pool's threads, with the directory backend: what is read, what is written, and what a bad source
// costs.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import { digestOf } from '../../../src/digest/blake3.ts';
import { ColdService } from '../../../src/cold/service/cold-service.ts';
import type { ColdOutcome, MergeSlice, MergedSlice } from '../../../src/cold/ports.ts';
import { DataRow } from '../../../src/stream/core/row.ts';
import { CHUNK_HEAD, decodeChunk, writeChunkHead } from '../../../src/stream/cold/chunk-layout.ts';
import type { ChunkRef } from '../../../src/protocol/cold.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';

const MESSAGE_BYTES = 10;
const OBJECTS = 40;

/** One message: the n-th of its stream. */
function chunkOf(incarnation: number, n: number): Uint8Array<ArrayBuffer> {
  const start = n * MESSAGE_BYTES;
  const row = new DataRow(start, n);
  row.append(new Uint8Array(MESSAGE_BYTES).fill(n), 0, MESSAGE_BYTES);
  row.addEnd();
  const size = row.encodedBytes;
  const bytes = new Uint8Array(CHUNK_HEAD.size + 4 + size);
  const view = new DataView(bytes.buffer);
  const head = { incarnation, start, end: start + MESSAGE_BYTES, firstRecord: n, recordNext: n + 1 };
  writeChunkHead(head, 1, view, 0);
  view.setUint32(CHUNK_HEAD.size, size, true);
  const at = CHUNK_HEAD.size + 4;
  row.encode(bytes.subarray(at), new DataView(bytes.buffer, at));
  return bytes;
}

class Rig {
  readonly folder = temporaryFolder('merge');
  readonly service: ColdService;

  constructor(t: TestContext) {
    mkdirSync(this.path('.tmp'), { recursive: true });
    const backend = { kind: 'dir', root: 'root', directory: this.folder } as const;
    this.service = new ColdService({
      backend,
      timeoutMs: 10_000,
      runtime: PROCESS_RUNTIME,
      onError: (error) => assert.fail(String(error)),
    });
    t.after(async () => {
      await this.service.close(0);
      removeFolder(this.folder);
    });
  }

  path(key: string): string {
    return join(this.folder, 'root', key);
  }

  /** An object with a chunk of each stream, `gap` bytes apart. */
  async put(key: string, n: number, incarnations: readonly number[], gap: number): Promise<ChunkRef[]> {
    const chunks = incarnations.map((incarnation) => chunkOf(incarnation, n));
    const step = gap + (chunks[0]?.length ?? 0);
    const body = new Uint8Array(step * chunks.length);
    const refs = chunks.map((chunk, i): ChunkRef => {
      body.set(chunk, i * step);
      const range = { start: n * MESSAGE_BYTES, end: (n + 1) * MESSAGE_BYTES, lastEnd: (n + 1) * MESSAGE_BYTES };
      const place = { at: i * step, length: chunk.length, digest: digestOf(chunk) };
      return { ...range, ...place, firstRecord: n, recordNext: n + 1, key };
    });
    assert.ok((await this.service.ask({ op: 'put', key, body, slices: [] })).ok);
    return refs;
  }

  /** Two streams in OBJECTS objects. */
  async streams(gap: number): Promise<MergeSlice[]> {
    const objects: ChunkRef[][] = [];
    for (let n = 0; n < OBJECTS; n++) objects.push(await this.put(`g/${n}`, n, [7, 8], gap));
    return [7, 8].map((incarnation, i) => ({ incarnation, refs: objects.map((refs) => refs[i] as ChunkRef) }));
  }

  merge(key: string, slices: readonly MergeSlice[]): Promise<ColdOutcome<'merge'>> {
    return this.service.ask({ op: 'merge', key, slices });
  }

  check(outcome: ColdOutcome<'merge'>, key: string, incarnations: readonly (number | undefined)[]): void {
    assert.ok(outcome.ok, JSON.stringify(outcome));
    const answer = outcome.value;
    const body = new Uint8Array(readFileSync(this.path(key)));
    assert.equal(body.length, answer.bytes);
    for (const [i, incarnation] of incarnations.entries()) {
      const slice: MergedSlice | undefined = answer.slices[i];
      if (incarnation === undefined) {
        assert.ok(slice !== undefined && 'failed' in slice);
        continue;
      }
      assert.ok(slice !== undefined && 'digest' in slice);
      const bytes = body.slice(slice.at, slice.at + slice.length);
      assert.deepEqual(digestOf(bytes), slice.digest);
      const { rows, ...head } = decodeChunk(bytes) ?? { rows: [] };
      assert.deepEqual(head, {
        incarnation,
        start: 0,
        end: OBJECTS * MESSAGE_BYTES,
        firstRecord: 0,
        recordNext: OBJECTS,
      });
      assert.equal(rows.length, 1);
      const expected = Array.from({ length: OBJECTS * MESSAGE_BYTES }, (_, at) => Math.floor(at / MESSAGE_BYTES));
      assert.deepEqual([...(rows[0] as Uint8Array).subarray(-OBJECTS * MESSAGE_BYTES)], expected);
    }
  }
}

for (const gap of [0, 100_000]) {
  it(`makes one object of many, with a chunk for each run (${gap} bytes between chunks)`, async (t) => {
    const rig = new Rig(t);
    const slices = await rig.streams(gap);
    rig.check(await rig.merge('g/merged', slices), 'g/merged', [7, 8]);
    assert.equal(rig.service.bytes, 0);
  });
}

it('a source that is missing, short or altered fails only its own run; without any good run nothing is written', async (t) => {
  const rig = new Rig(t);
  const slices = await rig.streams(100_000);
  const [, second] = slices as [MergeSlice, MergeSlice];
  const ref = second.refs[5] as ChunkRef;
  const stored = readFileSync(rig.path(ref.key));
  const altered = Buffer.from(stored);
  altered[ref.at + 70] = (altered[ref.at + 70] as number) ^ 1;
  writeFileSync(rig.path(ref.key), altered);
  const first = await rig.merge('g/first', slices);
  rig.check(first, 'g/first', [7, undefined]);
  assert.match(JSON.stringify(first), /g\/5: bytes .* are not what was written/);
  writeFileSync(rig.path(ref.key), stored.subarray(0, ref.at + 1));
  rig.check(await rig.merge('g/second', slices), 'g/second', [7, undefined]);
  rmSync(rig.path(ref.key));
  const third = await rig.merge('g/third', slices);
  assert.ok(third.ok);
  assert.equal(third.value.bytes, 0);
  assert.deepEqual(
    third.value.slices.map((slice) => 'failed' in slice && /g\/5/.test(slice.failed)),
    [true, true],
  );
  assert.equal(existsSync(rig.path('g/third')), false);
  // Not what the state says, though it is what was written.
  writeFileSync(rig.path(ref.key), stored);
  const wrong = slices.map((slice) => ({
    ...slice,
    incarnation: slice.incarnation + (slice.incarnation === 7 ? 1 : 0),
  }));
  rig.check(await rig.merge('g/fourth', wrong), 'g/fourth', [undefined, 8]);
});

it('a store that fails is a sentence', async (t) => {
  const rig = new Rig(t);
  const slices = await rig.streams(0);
  writeFileSync(rig.path('g/file'), '');
  const answer = await rig.merge('g/file/below', slices);
  assert.ok(!answer.ok && answer.message.length > 0);
  assert.equal(rig.service.counters.cold_store_merge_errors, 1);
});
