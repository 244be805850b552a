// The query that a purge asks each group: all objects of the bucket are found, and no query looks at the whole queue.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QUERIES } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';
import { CHECKPOINT_MS } from '../../src/shard/checkpoints.ts';
import { GC_IMMEDIATE, GC_MERGED, GC_USUAL, addObject, releaseObject } from '../../src/stream/cold/objects.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { Harness, find } from '../shard/harness.ts';

const RUN = '00000000000000aa';
const QUEUED = 12_000;
/** Queued by a purge, behind all others. */
const IMMEDIATE = 2000;
const STEP = 1000;
/** Some milliseconds. */
const LOOKS_MAX = 5000;

/** Each thousandth object is the bucket's. */
function fill(harness: Harness): void {
  const { state } = harness.shard.group(0) ?? assert.fail();
  for (let seq = 1; seq <= QUEUED; seq++) {
    const bucket = seq % STEP === 0 ? 'purged' : 'other';
    const object = { run: RUN, seq };
    addObject(state, { object, refs: 1, bytes: 10, bucket, key: `${bucket}/${seq}` }, harness.nowMs);
    const kept = seq % 3 === 0 ? GC_MERGED : GC_USUAL;
    releaseObject(state, object, 1, harness.nowMs, seq > QUEUED - IMMEDIATE ? GC_IMMEDIATE : kept);
  }
  for (let i = 0; i < 4; i++) harness.turn(CHECKPOINT_MS);
  assert.equal(state.overlay.size, 0, 'the rows are in the store');
}

for (const limit of [1, 100]) {
  test(`a purge finds the objects of its bucket step by step, the immediate ones first, ${limit} at a time`, () => {
    const harness = new Harness([0]);
    fill(harness);
    let looks = 0;
    harness.storage.isDamaged = (key) => {
      if (key[2] === TAG.gc) looks++;
      return false;
    };
    const found: number[] = [];
    let queries = 0;
    let from: number | undefined;
    do {
      looks = 0;
      const asked = harness.push(requestFor(QUERIES.bucketGarbage, 0, { bucket: 'purged', limit, from }));
      const { seqs, next } = QUERIES.bucketGarbage.result.read(find(harness.turn(), asked));
      assert(looks > 0 && looks < LOOKS_MAX, `${looks} looks`);
      assert(seqs.length <= limit);
      found.push(...seqs);
      from = next;
      assert(++queries <= QUEUED / STEP + 4, `${queries} queries`);
    } while (from !== undefined);
    assert.equal(new Set(found).size, QUEUED / STEP);
    const immediate = IMMEDIATE / STEP;
    assert(Math.max(...found.slice(immediate, -3)) < Math.min(...found.slice(0, immediate)), 'of the usual lane');
    assert(Math.max(...found.slice(0, immediate)) < Math.min(...found.slice(-3)), 'of the merged lane');
  });
}
