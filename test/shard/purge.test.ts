import { QUERIES } from '../../src/protocol/operations.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AdminRequest } from '../../src/protocol/queries/administration.ts';
import { adminRequest } from '../sim/requests.ts';
import { Harness, find } from './harness.ts';

test('a compaction tells how far the log is gone, also when it was asked for less', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.turn();
  const ask = (asked: AdminRequest): Readonly<Record<string, unknown>> => {
    const slot = harness.push(adminRequest(0, asked));
    const { body } = QUERIES.admin.result.read(find(harness.turn(), slot));
    assert(typeof body === 'object');
    return body;
  };
  const snapshot = ask({ call: 'snapshot' })['snapshot_index'];
  assert.equal(snapshot, 2);
  assert.equal(ask({ call: 'purge', upTo: undefined })['purged_index'], 2);
  assert.equal(ask({ call: 'purge', upTo: 0 })['purged_index'], 2);
});
