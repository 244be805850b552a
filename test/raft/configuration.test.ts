import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeConfiguration,
  encodeConfiguration,
  firstStep,
  members,
  withoutOutgoing,
} from '../../src/raft/configuration.ts';

const three = { voters: [1, 2, 3], votersOutgoing: [], learners: [4] };

test('a configuration survives its encoding, with ids up to 2^53', () => {
  const configuration = { voters: [1, 2 ** 53 - 1], votersOutgoing: [3, 4, 5], learners: [7] };
  assert.deepEqual(decodeConfiguration(encodeConfiguration(configuration)), configuration);
  assert.throws(() => decodeConfiguration(new Uint8Array(7)));
});

test('changing voters goes through a joint step, changing learners does not', () => {
  const joint = firstStep(three, { voters: [5, 2, 3, 2], learners: [1, 5] });
  assert.deepEqual(joint, { voters: [2, 3, 5], votersOutgoing: [1, 2, 3], learners: [1] });
  assert.deepEqual(members(joint), [1, 2, 3, 5]);
  assert.deepEqual(withoutOutgoing(joint), { voters: [2, 3, 5], votersOutgoing: [], learners: [1] });
  assert.deepEqual(firstStep(three, { voters: [3, 2, 1], learners: [] }), {
    voters: [1, 2, 3],
    votersOutgoing: [],
    learners: [],
  });
  assert.throws(() => firstStep(joint, { voters: [1], learners: [] }), /under way/);
  assert.throws(() => firstStep(three, { voters: [], learners: [] }), /voter/);
  assert.throws(() => firstStep(three, { voters: [0.5], learners: [] }), /node id/);
});
