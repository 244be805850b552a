import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planDrain } from '../../src/operator/successors.ts';
import { DRAINING, agreed, group, node, silent } from './cluster-snapshot.ts';

test('what a node leads goes to those with the fewest leaderships, as the plan grows', () => {
  // Node 1 leads four groups, node 2 two, node 3 none: node 3 gets two before they are level, then they alternate.
  const { transfers, immovable } = planDrain(agreed(1, 1, 1, 1, 2, 2), 1);
  assert.deepEqual(immovable, []);
  assert.deepEqual(transfers, [
    { group: 0, to: 3 },
    { group: 1, to: 3 },
    { group: 2, to: 2 },
    { group: 3, to: 3 },
  ]);
});

test('with equal leaderships the one that has applied more is taken, then the lower id', () => {
  const snapshot = [node(1, [group(0, 1)]), node(2, [group(0, 1, { applied: 90 })]), node(3, [group(0, 1)])];
  assert.deepEqual(planDrain(snapshot, 1).transfers, [{ group: 0, to: 3 }]);
  assert.deepEqual(planDrain(agreed(1), 1).transfers, [{ group: 0, to: 2 }]);
});

test('only what the node itself says it leads is planned', () => {
  const snapshot = [node(1, [group(0, 2)]), node(2, [group(0, 1)]), node(3, [group(0, 1)])];
  assert.deepEqual(planDrain(snapshot, 1), { transfers: [], immovable: [] });
});

test('a voter that takes nothing is passed over, one that does not report comes last', () => {
  const groups = [group(0, 1)];
  assert.deepEqual(planDrain([node(1, groups), node(2, groups, DRAINING), node(3, groups)], 1).transfers, [
    { group: 0, to: 3 },
  ]);
  assert.deepEqual(planDrain([node(1, groups), silent(2), node(3, groups)], 1).transfers, [{ group: 0, to: 3 }]);
  assert.deepEqual(planDrain([node(1, groups), silent(2), node(3, groups, DRAINING)], 1).transfers, [
    { group: 0, to: 2 },
  ]);
});

test('a group that no node can take is named with the reason', () => {
  const groups = [group(0, 1), group(1, 1, { voters: [1] })];
  const snapshot = [node(1, groups), node(2, groups, DRAINING), node(3, groups, DRAINING)];
  assert.deepEqual(planDrain(snapshot, 1), {
    transfers: [],
    immovable: [
      {
        group: 0,
        why: 'no other voter takes leaderships (node 2 is maintenance-drain, node 3 is maintenance-drain)',
      },
      { group: 1, why: 'it has no other voter' },
    ],
  });
});

test('learners are no successors', () => {
  const groups = [group(0, 1, { voters: [1, 3], learners: [2] })];
  assert.deepEqual(planDrain([node(1, groups), node(2, groups), node(3, groups)], 1).transfers, [{ group: 0, to: 3 }]);
});
