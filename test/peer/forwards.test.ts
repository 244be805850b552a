// The number of forwarded requests that wait for an answer is bounded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Forwards } from '../../src/peer/forwards.ts';
import { PEER_LIMITS } from '../../src/peer/limits.ts';

test('beyond the bound a request is not forwarded, and an answer makes room', () => {
  const forwards = new Forwards({ ...PEER_LIMITS, forwardsMax: 3 }, PROCESS_RUNTIME);
  const numbers = [1, 2, 3].map(() => forwards.add(2, 0, () => undefined));
  assert(numbers.every((one) => one !== undefined));
  assert.equal(
    forwards.add(2, 0, () => assert.fail('never asked')),
    undefined,
  );
  assert(forwards.answer(2, numbers[1] ?? -1, new Uint8Array(0)));
  assert.notEqual(
    forwards.add(2, 0, () => undefined),
    undefined,
  );
  assert.equal(forwards.waiting, 3);
});
