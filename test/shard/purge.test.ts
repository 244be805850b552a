import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ADMIN_PURGE, ADMIN_SNAPSHOT } from '../../src/protocol/request.ts';
import { adminRequest } from '../sim/requests.ts';
import { Harness, find, text } from './harness.ts';

test('a purge tells how far the log is gone, also when it was asked for less', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.turn();
  const ask = (mode: number, value: number): Record<string, number> => {
    const slot = harness.push(adminRequest(mode, 0, value));
    return JSON.parse(text(find(harness.turn(), slot))) as Record<string, number>;
  };
  const snapshot = ask(ADMIN_SNAPSHOT, -1)['snapshot_index'];
  assert.equal(snapshot, 2);
  assert.equal(ask(ADMIN_PURGE, -1)['purged_index'], 2);
  assert.equal(ask(ADMIN_PURGE, 0)['purged_index'], 2);
});
