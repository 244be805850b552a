import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeAddresses } from '../../src/raft/addresses.ts';
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

test('addresses of members travel with the configuration, and an entry without them is what it always was', () => {
  const addresses = new Map([
    [2, 'n2.example:4440'],
    [4, '[::1]:4440'],
  ]);
  const configuration = { ...three, addresses };
  assert.deepEqual(decodeConfiguration(encodeConfiguration(configuration)), configuration);
  // Three counts and four ids, as before there were addresses.
  assert.equal(encodeConfiguration(three).length, 6 + 8 * 4);
  assert.deepEqual(decodeConfiguration(encodeConfiguration({ ...three, addresses: new Map() })), three);
  const bytes = encodeConfiguration(configuration);
  for (let length = 6 + 8 * 4 + 1; length < bytes.length; length++) {
    assert.throws(() => decodeConfiguration(bytes.subarray(0, length)), /broken addresses/);
  }
  assert.throws(() => decodeConfiguration(Uint8Array.of(...bytes, 0)), /broken addresses/);
  assert.throws(() => decodeConfiguration(bytes.with(bytes.length - 1, 0xff)), /broken addresses/);
});

test('an address comes with a member and goes with it', () => {
  const joined = firstStep(three, {
    voters: [1, 2, 3],
    learners: [4, 5],
    addresses: new Map([
      [5, 'a:1'],
      [9, 'b:1'],
    ]),
  });
  assert.deepEqual(joined, { ...three, learners: [4, 5], addresses: new Map([[5, 'a:1']]) });
  const moved = firstStep(joined, { voters: [1, 2, 3], learners: [4, 5], addresses: new Map([[5, 'c:1']]) });
  assert.deepEqual(moved.addresses, new Map([[5, 'c:1']]));
  const voting = withoutOutgoing(firstStep(moved, { voters: [2, 3, 5], learners: [4] }));
  assert.deepEqual(voting, { voters: [2, 3, 5], votersOutgoing: [], learners: [4], addresses: new Map([[5, 'c:1']]) });
  const leaving = firstStep(voting, { voters: [2, 3], learners: [4] });
  // It is still needed until the joint step is over.
  assert.deepEqual(leaving.addresses, new Map([[5, 'c:1']]));
  assert.deepEqual(withoutOutgoing(leaving), { voters: [2, 3], votersOutgoing: [], learners: [4] });
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

test('the identity of the cluster is carried through every change, and unknown to versions before', () => {
  const identity = 'f'.repeat(32);
  const first = firstStep({ voters: [1], votersOutgoing: [], learners: [] }, { voters: [1], learners: [2], identity });
  assert.equal(first.identity, identity);
  const other = { voters: [1, 2], learners: [], identity: 'e'.repeat(32), addresses: new Map([[2, 'h:1']]) };
  const joint = decodeConfiguration(encodeConfiguration(firstStep(first, other)));
  assert.deepEqual([joint.identity, joint.votersOutgoing], [identity, [1]]);
  const last = decodeConfiguration(encodeConfiguration(withoutOutgoing(joint)));
  assert.deepEqual(last, {
    voters: [1, 2],
    votersOutgoing: [],
    learners: [],
    addresses: new Map([[2, 'h:1']]),
    identity,
  });
  // It is stored among the addresses under a number that no node has, so those versions drop it.
  const bytes = encodeConfiguration({ voters: [1], votersOutgoing: [], learners: [], identity });
  assert.deepEqual([...(decodeAddresses(bytes.subarray(6 + 8)) ?? [])], [[0, identity]]);
});
