import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterSnapshot } from '../../src/nodes/cluster-snapshot.ts';
import {
  hasNothing,
  needsPermission,
  whyClusterNotReady,
  whyNotReady,
  whyNotServing,
} from '../../src/operator/ready.ts';
import { foreignTo, groupViews, lagOf, leaderships, ledBy, nameGroups } from '../../src/nodes/cluster-snapshot.ts';
import { agreed, group, node, silent } from './cluster-snapshot.ts';

const LAG = 16;

test('a node is ready when it votes everywhere, knows the leaders and has applied nearly all that others committed', () => {
  assert.equal(whyNotReady(agreed(1, 2, 3), 2, LAG), undefined);
  const near = [node(1, [group(0, 1, { committed: 116 })]), node(2, [group(0, 1)])];
  assert.equal(whyNotReady(near, 2, LAG), undefined);
  const far = [node(1, [group(0, 1, { committed: 117 })]), node(2, [group(0, 1)])];
  assert.equal(whyNotReady(far, 2, LAG), 'node 2 is behind in group 0, by up to 17 entries');
});

test('a node is not ready when it is silent, is a learner, knows no leader, or says that it is behind', () => {
  assert.equal(whyNotReady([node(1, [group(0, 1)]), silent(2)], 2, LAG), 'node 2: connection refused');
  const learner = [node(1, [group(0, 1, { voters: [1, 3] })]), node(2, [group(0, 1, { voters: [1, 3] })])];
  assert.equal(whyNotReady(learner, 2, LAG), 'node 2 is not a voter of group 0');
  const lost = [node(1, [group(0, 1)]), node(2, [])];
  assert.equal(whyNotReady(lost, 2, LAG), 'node 2 is not a voter of group 0');
  const blind = [node(1, [group(0, 1)]), node(2, [group(0, undefined)])];
  assert.equal(whyNotReady(blind, 2, LAG), 'node 2 knows no leader of group 0');
  const restarted = [node(1, [group(0, 1)]), node(2, [group(0, 1, { caughtUp: false })])];
  assert.equal(whyNotReady(restarted, 2, LAG), 'node 2 is behind in group 0, by up to 0 entries');
  assert.equal(whyNotReady([node(1, []), node(2, [])], 2, LAG), 'node 2: no node reports a group with voters');
});

test('its own commit index is no measure of a node: only what others have committed is', () => {
  const alone = [node(1, [group(0, 1, { committed: 500, applied: 100 })]), silent(2)];
  assert.equal(whyNotReady(alone, 1, LAG), undefined);
  assert.equal(lagOf(alone, 1), 0);
});

test('a node that has applied what the others had committed a look earlier keeps up, however busy the group is', () => {
  const before = [node(1, [group(0, 1, { committed: 1000 })]), node(2, [group(0, 1, { applied: 900 })])];
  const after = (applied: number): Parameters<typeof whyNotReady>[0] => [
    node(1, [group(0, 1, { committed: 1500 })]),
    node(2, [group(0, 1, { applied })]),
  ];
  assert.equal(whyNotReady(after(1000), 2, LAG, before), undefined);
  assert.equal(whyNotReady(after(999), 2, LAG, before), 'node 2 is behind in group 0, by up to 501 entries');
  assert.notEqual(whyNotReady(after(1000), 2, LAG), undefined);
  // The node did not answer then, so nothing is known of it.
  assert.notEqual(whyNotReady(after(1000), 2, LAG, [silent(1), silent(2)]), undefined);
});

test('the cluster is ready when every node is; the first objection is told', () => {
  assert.equal(whyClusterNotReady(agreed(1, 2, 3), LAG), undefined);
  assert.equal(whyClusterNotReady([...agreed(1, 2).slice(0, 2), silent(3)], LAG), 'node 3: connection refused');
});

test('wait-ready wants exactly the expected groups, each with voters and a leader', () => {
  assert.equal(whyNotServing(agreed(1, 2, 3), 3), undefined);
  assert.equal(whyNotServing(agreed(1, 2, 3), 4), 'node 1 reports 3 groups instead of 4');
  assert.equal(whyNotServing([node(1, [group(0, undefined)])], 1), 'node 1 knows no leader of group 0');
  assert.equal(whyNotServing([node(1, [group(0, 1, { voters: [] })])], 1), 'node 1 reports no voters of group 0');
  assert.equal(whyNotServing([silent(1)], 1), 'node 1: connection refused');
});

test('a node that answers and has applied nothing has lost its disk, or was never filled', () => {
  const empty = group(0, undefined, { applied: 0, lastLog: 0 });
  assert.equal(hasNothing([node(2, [empty])], 2), true);
  // Removed while it was away: it is not told how much of its log counts.
  assert.equal(hasNothing([node(2, [group(0, undefined, { applied: 0 })])], 2), false);
  assert.equal(hasNothing([node(1, [group(0, 1, { voters: [1, 3] })]), node(2, [{ ...empty, term: 0 }])], 2), false);
  assert.equal(hasNothing([node(2, [group(0, 1)])], 2), false);
  assert.equal(hasNothing([silent(2)], 2), false);
});

test('a node may need permission to come back when its log is empty or it is stuck, not when it catches up', () => {
  const at = (applied: number, lastLog = applied): ClusterSnapshot => [
    node(1, [group(0, 1, { committed: 500 })]),
    node(2, [group(0, 1, { applied, lastLog })]),
  ];
  const gone = [node(1, [group(0, 1)]), silent(2)];
  assert.equal(needsPermission(0, { snapshot: at(0), before: at(0), nodeId: 2, lagMax: LAG }), true);
  assert.equal(needsPermission(0, { snapshot: gone, before: gone, nodeId: 2, lagMax: LAG }), true);
  assert.equal(needsPermission(0, { snapshot: at(490), before: at(490), nodeId: 2, lagMax: LAG }), false);
  assert.equal(needsPermission(0, { snapshot: at(300), before: at(200), nodeId: 2, lagMax: LAG }), false);
  assert.equal(needsPermission(0, { snapshot: at(300), before: at(300), nodeId: 2, lagMax: LAG }), true);
  assert.equal(needsPermission(0, { snapshot: at(300), before: gone, nodeId: 2, lagMax: LAG }), false);
});

test('of several views of a group the newest term counts; an old one without a leader does not', () => {
  const snapshot = [
    node(1, [group(0, 1, { term: 5 })]),
    node(2, [group(0, 2, { term: 6, committed: 90 })]),
    node(3, [group(0, undefined, { term: 6 })]),
  ];
  const members = { voters: [1, 2, 3], outgoing: [], learners: [], isPending: false };
  assert.deepEqual(groupViews(snapshot), [{ id: 0, leader: 2, term: 6, ...members, committed: 100, from: 2 }]);
  assert.deepEqual(groupViews(snapshot.toReversed())[0]?.leader, 2);
  assert.deepEqual([...leaderships(snapshot)], [[2, 1]]);
  // But a node that any other still sees as a leader has not handed everything over.
  assert.deepEqual(ledBy(snapshot, 1), [0]);
});

test('a node that lags or lost its log knows term and leader, and not the voters, whatever the order of the file', () => {
  const voters = [1, 2, 3, 4];
  const lagging = node(1, [group(0, 2, { lastLog: 40, voters: [1, 2, 3] })]);
  const leader = node(2, [group(0, 2, { voters })]);
  // Refilled so far that its log is the longest of those that are left.
  const lost = node(3, [group(0, 2, { lastLog: 120, logLost: true, voters: [1, 2, 3] })]);
  const sound = node(4, [group(0, 2, { voters })]);
  const nodes = [lagging, leader, lost, sound];
  for (const snapshot of [nodes, nodes.toReversed()]) {
    const [view] = groupViews(snapshot);
    assert.deepEqual([view?.voters, view?.from], [voters, 2]);
    assert.deepEqual(foreignTo(snapshot, 4), []);
    assert.equal(whyNotReady(snapshot, 4, LAG), undefined);
  }
  // The leader does not answer: then a log that is whole and long.
  for (const others of [
    [lagging, silent(2), lost, sound],
    [sound, lost, silent(2), lagging],
  ]) {
    const [view] = groupViews(others);
    assert.deepEqual([view?.voters, view?.leader, view?.from], [voters, 2, 4]);
  }
  // A newer term counts more than all of that.
  const newer = node(1, [group(0, undefined, { term: 6, lastLog: 40 })]);
  assert.deepEqual(groupViews([leader, sound, newer])[0]?.from, 1);
});

test('a voter is no stranger before the change that takes it out is committed', () => {
  const joint = { voters: [1, 2], outgoing: [1, 2, 3], isPending: true };
  const at = (more: Parameters<typeof group>[2]): ClusterSnapshot => [
    node(1, [group(0, 1, more)]),
    node(2, [group(0, 1, more)]),
    node(3, [group(0, 1)]),
  ];
  assert.deepEqual(foreignTo(at(joint), 3), []);
  assert.deepEqual(foreignTo(at({ ...joint, outgoing: [] }), 3), []);
  assert.deepEqual(foreignTo(at({ voters: [1, 2] }), 3), [0]);
});

test('groups are named briefly', () => {
  assert.equal(nameGroups([3]), 'group 3');
  assert.equal(nameGroups([1, 2]), 'groups 1 and 2');
  assert.equal(nameGroups([1, 2, 3]), 'groups 1, 2 and 3');
  assert.equal(nameGroups([0, 1, 2, 3, 4, 5, 6, 7]), 'groups 0, 1, 2, 3, 4 and 3 more');
});
