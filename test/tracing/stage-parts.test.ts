// Where the stages that shards report are placed, and how they travel.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REPLY, Reply } from '../../src/protocol/reply.ts';
import { STAGE_FORWARDED, STAGE_PLAIN, STAGE_WRITTEN, type Stage } from '../../src/protocol/stage.ts';
import { TracedSlots } from '../../src/shard/traced-slots.ts';
import { type Part, partsOf } from '../../src/tracing/stage-parts.ts';

const stage = (node: number, kind: number, firstMs: number, totalMs: number): Stage => ({
  ...{ node, kind, firstMs, totalMs },
});

/** As text: name, node, from, to, and what is in it. */
function shown(parts: readonly Part[]): string[] {
  return parts.map(({ name, node, startMs, endMs, parts: inner }) => {
    const within = inner.length === 0 ? '' : ` (${shown(inner).join(', ')})`;
    return `${name}@${node} ${startMs}-${endMs}${within}`;
  });
}

test('stages end with the answer, and the leader stands in the middle of the way to it', () => {
  assert.deepEqual(shown(partsOf([], 100, 200)), []);
  assert.deepEqual(shown(partsOf([stage(1, STAGE_PLAIN, 0, 5)], 100, 200)), ['turn@1 195-200']);
  assert.deepEqual(shown(partsOf([stage(1, STAGE_WRITTEN, 10, 40)], 100, 200)), ['log@1 160-170', 'commit@1 170-200']);
  const leader = stage(3, STAGE_WRITTEN, 10, 30);
  assert.deepEqual(shown(partsOf([stage(1, STAGE_FORWARDED, 50, 60), leader], 100, 200)), [
    'leader@3 140-190 (log@3 150-160, commit@3 160-180)',
    'apply@1 190-200',
  ]);
  // A leader of the version before says nothing.
  assert.deepEqual(shown(partsOf([stage(1, STAGE_FORWARDED, 50, 60)], 100, 200)), [
    'leader@1 140-190',
    'apply@1 190-200',
  ]);
  // Whatever nodes say, a part stays within its whole.
  assert.deepEqual(shown(partsOf([stage(1, STAGE_FORWARDED, 5000, 900), leader], 190, 200)), [
    'leader@3 190-200 (log@3 190-200, commit@3 200-200)',
    'apply@1 200-200',
  ]);
});

test('a reply carries stages behind its body, and the next one none', () => {
  let clockMs = 0;
  const slots = new TracedSlots(2, () => clockMs);
  const reply = new Reply();
  const bytes = new Uint8Array(1000);
  const view = new DataView(bytes.buffer);
  const travel = (): Reply => {
    const size = reply.write(bytes, view, 8);
    assert(size <= reply.bytesMax());
    const read = new Reply();
    read.read(bytes, view, 8);
    return read;
  };
  slots.take(7, 'write');
  slots.take(8, 'forward');
  slots.take(9, 'read');
  clockMs = 3;
  slots.written();
  clockMs = 4;
  slots.written();
  slots.answered(8);
  clockMs = 10;
  for (const [slot, stages] of [
    [7, [stage(2, STAGE_WRITTEN, 3, 10)]],
    [8, [stage(2, STAGE_FORWARDED, 4, 10), stage(1, STAGE_WRITTEN, 1, 2)]],
    [9, [stage(2, STAGE_PLAIN, 0, 10)]],
    [7, []],
  ] as const) {
    reply.reset(slot);
    reply.body = new TextEncoder().encode('body');
    if (slot === 8) reply.stages = [stage(1, STAGE_WRITTEN, 1, 2)];
    slots.end(reply);
    const read = travel();
    assert.deepEqual(read.stages, stages);
    assert.equal(new TextDecoder().decode(read.body), 'body');
  }
  assert(slots.isEmpty);
  for (let slot = 0; slot < 5000; slot++) slots.take(slot, 'read');
  reply.reset(4000);
  slots.end(reply);
  assert.deepEqual(reply.stages, [], 'beyond the bound nothing is kept');
});

test('a count of stages that no node writes is none, wherever the frame ends', () => {
  const reply = new Reply();
  reply.reset(1);
  reply.stages = [stage(1, STAGE_WRITTEN, 1, 2)];
  const bytes = new Uint8Array(reply.bytesMax());
  const view = new DataView(bytes.buffer);
  const size = reply.write(bytes, view, 0);
  const read = new Reply();
  read.read(bytes, view, 0);
  assert.equal(read.stages.length, 1);
  for (const [count, end] of [
    [2, size],
    [255, size],
    [1, size - 1],
  ] as const) {
    const cut = bytes.slice(0, end);
    REPLY.fields.stages.set(new DataView(cut.buffer), 0, count);
    read.read(cut, new DataView(cut.buffer), 0);
    assert.deepEqual(read.stages, [], `${count} of ${end} bytes`);
  }
});
