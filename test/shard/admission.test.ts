// Bounds on bytes that only the nodes hold: what is refused, what still passes, and that refusals end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Harness, code, find } from './harness.ts';

const BOUND = 1000;

function bounded(): { harness: Harness; appendCode(stream: string, bytes: number): string } {
  const harness = new Harness([0]);
  const { admission } = harness.shard.groups[0] as Harness['shard']['groups'][number];
  admission.hot.bytesMax = BOUND;
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
  assert.equal(group.admission.show(group.state), 'refusing');
  harness.remove(0, 't');
  harness.turn();
  assert.equal(appendCode('s', 300), 'OK');
  harness.turn(5000);
  assert.equal(group.admission.show(group.state), 'pressure');
  harness.remove(0, 's');
  harness.turn();
  harness.turn(5000);
  assert.equal(group.admission.show(group.state), 'open');
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

test('at the bound, what the state refuses anyway is told why, and duplicates are acknowledged', () => {
  const { harness, appendCode } = bounded();
  const w = (seq: number): { producer: [string, number, number] } => ({ producer: ['w', 0, seq] });
  // A large one comes in two pieces.
  const one = (slot: number): string => code(find([...harness.turn(), ...harness.turn()], slot));
  assert.equal(one(harness.append(0, 's', 'once', w(0))), 'OK');
  assert.equal(one(harness.create(0, 'closed', { close: true })), 'OK');
  assert.equal(appendCode('s', 596), 'OK');
  const large = 'x'.repeat(300_000);
  const told: readonly [string, () => number][] = [
    ['STREAM_NOT_FOUND', () => harness.append(0, 'none', 'x')],
    ['CONTENT_TYPE_MISMATCH', () => harness.append(0, 's', 'x', { type: 'text/html' })],
    ['CONTENT_TYPE_MISMATCH', () => harness.append(0, 's', large, { type: 'text/html', isTransferred: true })],
    ['STREAM_CLOSED', () => harness.append(0, 'closed', 'x')],
    ['PRODUCER_SEQ_CONFLICT', () => harness.append(0, 's', 'x', w(5))],
    ['OK', () => harness.append(0, 's', 'once', w(0))],
    ['OK', () => harness.create(0, 's', { body: 'ignored' })],
    ['CREATE_CONFLICT', () => harness.create(0, 's', { body: 'ignored', type: 'text/html' })],
    ['BACKPRESSURE', () => harness.append(0, 's', 'next', w(1))],
    ['BACKPRESSURE', () => harness.create(0, 'new', { body: 'x' })],
  ];
  for (const [expected, ask] of told) assert.equal(one(ask()), expected);
  assert.equal(harness.shard.groups[0]?.state.hotBytes, BOUND);
  // Behind a create of the same turn an append would bring bytes.
  const slots = [harness.create(0, 'fresh'), harness.append(0, 'fresh', 'x')];
  const replies = harness.turn();
  assert.deepEqual(
    slots.map((slot) => code(find(replies, slot))),
    ['OK', 'BACKPRESSURE'],
  );
});

test('bytes of the same turn count, and a body larger than the bound passes when it is alone', () => {
  const { harness, appendCode } = bounded();
  const slots = [450, 124, 1].map((bytes) => harness.append(0, 's', new Uint8Array(bytes)));
  const replies = harness.turn();
  // A command's cost besides its payload counts until it is committed.
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
  admission.hot.bytesMax = Infinity;
  admission.uncommitted.bytesMax = BOUND;
  const slots = [800, 300].map((bytes) => harness.append(0, 's', new Uint8Array(bytes)));
  const replies = harness.turn();
  assert.deepEqual(
    slots.map((slot) => code(find(replies, slot))),
    ['OK', 'UNCOMMITTED_FULL'],
  );
  assert.equal(admission.counters.uncommittedRefusals, 1);
  assert.equal(appendCode('s', 300), 'OK');
});
