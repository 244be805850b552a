// Slots identify the receiver of an answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_SLOT, type Receiver, SlotSequence, receiverOf } from '../../src/group/reply-slot.ts';

const RECEIVERS: readonly Receiver[] = ['client', 'shard', 'node'];

test('each receiver gets its own slots, and each slot names its receiver', () => {
  const seen = new Set<number>();
  for (const receiver of RECEIVERS) {
    const slots = new SlotSequence(receiver);
    for (let i = 0; i < 1000; i++) {
      const slot = slots.take();
      assert.equal(receiverOf(slot), receiver);
      assert.notEqual(slot, NO_SLOT);
      seen.add(slot);
    }
  }
  assert.equal(seen.size, RECEIVERS.length * 1000);
});

test('the ends of the ranges belong to the receiver on their side', () => {
  const edges: readonly (readonly [number, Receiver])[] = [
    [0, 'client'],
    [0x2fff_ffff, 'client'],
    [0x3000_0000, 'shard'],
    [0x3fff_ffff, 'shard'],
    [0x4000_0000, 'node'],
    [0x7fff_ffff, 'node'],
  ];
  for (const [slot, receiver] of edges) assert.equal(receiverOf(slot), receiver, slot.toString(16));
});
