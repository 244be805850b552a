// Bounds on bytes that only the nodes hold: what is refused, what passes all the same, and that it ends by itself.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, code, find } from './harness.ts';

const BOUND = 1000;

function bounded(): { harness: Harness; appendCode(stream: string, bytes: number): string } {
  const harness = new Harness([0]);
  const { admission } = harness.shard.groups[0] as Harness['shard']['groups'][number];
  admission.hotBytesMax = BOUND;
  const first = harness.create(0, 's');
  const second = harness.create(0, 't', { body: 'x'.repeat(400) });
  const replies = harness.turn();
  assert.equal(code(find(replies, first)), 'OK');
  assert.equal(code(find(replies, second)), 'OK');
  const appendCode = (stream: string, bytes: number): string => {
    const slot = harness.append(0, stream, new Uint8Array(bytes));
    return code(find(harness.turn(), slot));
  };
  return { harness, appendCode };
}

test('writes beyond the bound of hot bytes are refused, smaller ones pass, and deleting makes room', () => {
  const { harness, appendCode } = bounded();
  assert.equal(appendCode('s', 500), 'OK');
  assert.equal(appendCode('s', 101), 'BACKPRESSURE');
  assert.equal(appendCode('s', 100), 'OK');
  assert.equal(appendCode('s', 1), 'BACKPRESSURE');
  const group = harness.shard.groups[0] as Harness['shard']['groups'][number];
  assert.equal(group.state.hotBytes, BOUND);
  assert.deepEqual(group.admission.counters, {
    hotRefusals: 2,
    uncommittedRefusals: 0,
    refusedBytes: 102,
    hotBytesHighest: BOUND,
  });
  assert.equal(group.admission.stateAt(group.state, harness.nowMs), 'refusing');
  harness.remove(0, 't');
  harness.turn();
  assert.equal(appendCode('s', 300), 'OK');
  assert.equal(group.admission.stateAt(group.state, harness.nowMs + 5000), 'pressure');
  harness.remove(0, 's');
  harness.turn();
  assert.equal(group.admission.stateAt(group.state, harness.nowMs + 5000), 'open');
});

test('what brings no bytes passes at the bound: empty creates, closing, deleting', () => {
  const { harness, appendCode } = bounded();
  assert.equal(appendCode('s', 600), 'OK');
  const refused = harness.create(0, 'u', { body: 'x' });
  const slots = [harness.create(0, 'empty'), harness.close(0, 's'), harness.remove(0, 't')];
  const replies = harness.turn();
  assert.equal(code(find(replies, refused)), 'BACKPRESSURE');
  for (const slot of slots) assert.equal(code(find(replies, slot)), 'OK');
});

test('bytes of the same turn count, and a body larger than the bound passes when it is alone', () => {
  const { harness, appendCode } = bounded();
  const slots = [400, 300, 100].map((bytes) => harness.append(0, 's', new Uint8Array(bytes)));
  const replies = harness.turn();
  // What a command costs besides its payload counts until it is committed.
  assert.deepEqual(
    slots.map((slot) => code(find(replies, slot))),
    ['OK', 'BACKPRESSURE', 'OK'],
  );
  harness.remove(0, 't');
  harness.remove(0, 's');
  harness.create(0, 's');
  harness.turn();
  assert.equal(appendCode('s', 2 * BOUND), 'OK');
  assert.equal(appendCode('s', 1), 'BACKPRESSURE');
});

test('bytes that wait for a majority are bounded on their own, and are free again with the commit', () => {
  const { harness, appendCode } = bounded();
  const { admission } = harness.shard.groups[0] as Harness['shard']['groups'][number];
  admission.hotBytesMax = Infinity;
  admission.uncommittedBytesMax = BOUND;
  const slots = [800, 300].map((bytes) => harness.append(0, 's', new Uint8Array(bytes)));
  const replies = harness.turn();
  assert.deepEqual(
    slots.map((slot) => code(find(replies, slot))),
    ['OK', 'UNCOMMITTED_FULL'],
  );
  assert.equal(admission.counters.uncommittedRefusals, 1);
  assert.equal(appendCode('s', 300), 'OK');
});
