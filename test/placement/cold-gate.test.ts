// The cold-health gate: it gives groups away only when another node would do better, and ends when its own way is good
// again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BalancedGroup } from '../../src/placement/balancer.ts';
import { ColdGate } from '../../src/placement/cold-gate.ts';
import { describeShed } from '../../src/placement/state/shed.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';

const NODE = 1;

class Rig {
  groups: BalancedGroup[] = [
    { id: 0, leader: 1, voters: [1, 2, 3], coldFailing: true },
    { id: 1, leader: 2, voters: [1, 2, 4] },
  ];
  /** Nodes that reach the store. */
  reaching = new Set<number>([2, 3]);
  failure: Error | undefined;
  isCut = false;
  readonly applied: boolean[] = [];
  readonly asked: number[] = [];
  readonly errors: unknown[] = [];
  readonly gate = new ColdGate({
    runtime: new FakeRuntime(),
    nodeId: NODE,
    intervalMs: 1000,
    unhealthyTicks: 3,
    healTicks: 2,
    groups: () => this.groups,
    reaches: () => Promise.resolve(this.reaching.has(NODE)),
    otherReaches: (node) => {
      this.asked.push(node);
      return Promise.resolve(this.reaching.has(node));
    },
    apply: (isCut) => {
      if (this.failure !== undefined) return Promise.reject(this.failure);
      this.applied.push(isCut);
      return Promise.resolve();
    },
    onChange: (isCut) => void (this.isCut = isCut),
    onError: (error) => this.errors.push(error),
  });

  set failing(failing: boolean) {
    this.groups = this.groups.map((group) => ({ ...group, coldFailing: failing && group.leader === NODE }));
  }

  /** One letter for each tick: `-` as usual, `C` cut off. */
  async ticks(count: number): Promise<string> {
    let seen = '';
    for (let i = 0; i < count; i++) {
      await this.gate.tick();
      seen += this.isCut ? 'C' : '-';
    }
    return seen;
  }
}

test('it trips after several checks in a row that found uploads failing, and heals after several good probes', async () => {
  const rig = new Rig();
  assert.equal(await rig.ticks(2), '--');
  rig.failing = false;
  assert.equal(await rig.ticks(1), '-');
  rig.failing = true;
  assert.equal(await rig.ticks(4), '--CC');
  assert.deepEqual([...rig.gate.receivers], [2, 3], 'voters of what it leads that reach the store');
  // Nothing is led any more, so nothing fails: that proves nothing.
  rig.groups = rig.groups.map((group) => ({ ...group, leader: 2 }));
  assert.equal(await rig.ticks(5), 'CCCCC');
  rig.reaching.add(NODE);
  assert.equal(await rig.ticks(1), 'C');
  rig.reaching.delete(NODE);
  assert.equal(await rig.ticks(1), 'C');
  rig.reaching.add(NODE);
  assert.equal(await rig.ticks(3), 'C--');
  assert.deepEqual(rig.applied, [true, false]);
  assert.equal(rig.gate.counters.trips, 1);
  assert.deepEqual(rig.errors, []);
});

test('a store that no node reaches moves nothing, for however long', async () => {
  const rig = new Rig();
  rig.reaching = new Set();
  assert.equal(await rig.ticks(20), '-'.repeat(20));
  assert.deepEqual(rig.applied, []);
  // Node 4 reaches it, and votes in nothing that this node leads.
  rig.reaching = new Set([4]);
  assert.equal(await rig.ticks(5), '-----');
  rig.reaching = new Set([3]);
  assert.equal(await rig.ticks(1), 'C');
  assert.deepEqual([...rig.gate.receivers], [3]);
  rig.reaching = new Set();
  await rig.ticks(1);
  assert.deepEqual([...rig.gate.receivers], [], 'it keeps what it still leads');
});

test('no node is asked while uploads work, or when this node can reach the store itself', async () => {
  const rig = new Rig();
  rig.failing = false;
  await rig.ticks(10);
  rig.failing = true;
  rig.reaching.add(NODE);
  assert.equal(await rig.ticks(20), '-'.repeat(20));
  assert.deepEqual(rig.asked, []);
  rig.groups = [{ id: 0, leader: 2, voters: [1, 2, 3], coldFailing: true }];
  rig.reaching.delete(NODE);
  assert.equal(await rig.ticks(5), '-----', 'what others lead is theirs');
});

test('shards that could not be told are told with the next tick', async () => {
  const rig = new Rig();
  rig.failure = new Error('busy');
  await rig.ticks(4);
  assert.equal(rig.errors.length, 2);
  rig.failure = undefined;
  await rig.ticks(3);
  assert.deepEqual(rig.applied, [true]);
});

test('such a node takes no leadership but campaigns, unless something else forbids that', () => {
  assert.deepEqual(describeShed(4), {
    bits: 4,
    state: 'cold-health',
    should_accept_transfer: false,
    should_campaign: true,
    should_shed_current_leaders: true,
  });
  assert.equal(describeShed(5)['should_campaign'], false);
  assert.equal(describeShed(7)['state'], 'cluster-egress|cold-health|maintenance-drain');
});

test('a node under which groups stalled takes no leadership, keeps the others that it has, and campaigns', () => {
  assert.deepEqual(describeShed(8), {
    bits: 8,
    state: 'commit-stall',
    should_accept_transfer: false,
    should_campaign: true,
    should_shed_current_leaders: false,
  });
  assert.equal(describeShed(10)['should_shed_current_leaders'], true);
});
