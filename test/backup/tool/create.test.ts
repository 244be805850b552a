// Which group of a backup is sent first.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fnv1a64mod } from '../../../src/base/hash.ts';
import { sendOrder } from '../../../src/backup/tool/create.ts';

test('the cursors of subscriptions are sent before the streams that they point into, and every group once', () => {
  for (const count of [1, 2, 3, 16, 64]) {
    const order = sendOrder(count);
    assert.equal(order[0], fnv1a64mod('__ds', 'log', count));
    assert.deepEqual(
      order.toSorted((a, b) => a - b),
      Array.from({ length: count }, (_, group) => group),
    );
  }
});
