// Leadership transfers: the plan as a table, and rounds against shards that accept, refuse or forget.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { Balancer, type Situation, planTransfers } from '../../src/placement/balancer.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import type { CallOutcome } from '../../src/protocol/queries/administration.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';

interface Row {
  readonly title: string;
  /** Leader of each group, by id. */
  readonly leaders: readonly (number | null)[];
  readonly voters?: readonly number[];
  readonly draining?: boolean;
  readonly unreachable?: readonly number[];
  readonly after?: number;
  /** Seen from node 1: `group>node` in the order of the attempts. */
  readonly plan: readonly string[];
}

const TABLE: readonly Row[] = [
  { title: 'even already', leaders: [1, 2, 3, 1, 2, 3], plan: [] },
  { title: 'a group more than even does no harm', leaders: [1, 1, 2, 3], plan: [] },
  { title: 'leads nothing', leaders: [2, 2, 2, 3], plan: [] },
  { title: 'to the one with the fewest', leaders: [1, 1, 1, 1, 2, 2], plan: ['0>3', '1>3', '2>3', '3>3'] },
  {
    title: 'fewest first, then the lowest id',
    leaders: [1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 4, 4],
    voters: [4, 3, 2, 1],
    plan: [0, 1, 2, 3, 4, 5, 6].flatMap((group) => [`${group}>2`, `${group}>3`, `${group}>4`]),
  },
  { title: 'no node below fair', leaders: [1, 1, 1, 2, 2, 3, 3], unreachable: [], plan: [] },
  { title: 'an unreachable node raises the fair share', leaders: [1, 1, 2, 2], unreachable: [3], plan: [] },
  { title: 'and gets nothing', leaders: [1, 1, 1, 2], unreachable: [3], plan: ['0>2', '1>2', '2>2'] },
  { title: 'all others unreachable', leaders: [1, 1, 1, 1], unreachable: [2, 3], plan: [] },
  {
    title: 'groups without a leader count in the share only',
    leaders: [1, 1, 1, null, null, null],
    plan: ['0>2', '0>3', '1>2', '1>3', '2>2', '2>3'],
  },
  { title: 'the next group in turn', leaders: [1, 1, 1, 2, 2, 3], after: 0, plan: ['1>3', '2>3', '0>3'] },
  { title: 'a single voter', leaders: [1, 1], voters: [1], plan: [] },
  { title: 'a single voter drains', leaders: [1, 1], voters: [1], draining: true, plan: [] },
  { title: 'draining: all, fewest first', leaders: [1, 2, 2, 3], draining: true, plan: ['0>3', '0>2'] },
  { title: 'draining: also beyond the share of the others', leaders: [1, 2, 3], draining: true, plan: ['0>2', '0>3'] },
  {
    title: 'draining: those who refused come last',
    leaders: [1, 2, 2, 3],
    draining: true,
    unreachable: [3],
    plan: ['0>2', '0>3'],
  },
  {
    title: 'draining: the next group in turn',
    leaders: [1, 1, 2],
    draining: true,
    after: 0,
    plan: ['1>3', '1>2', '0>3', '0>2'],
  },
  { title: 'draining: done', leaders: [2, 3, null], draining: true, plan: [] },
];

test('planning', () => {
  for (const row of TABLE) {
    const situation: Situation = {
      nodeId: 1,
      draining: row.draining ?? false,
      groups: row.leaders.map((leader, id) => ({ id, leader, voters: row.voters ?? [1, 2, 3] })),
      unreachable: new Set(row.unreachable),
      after: row.after ?? -1,
    };
    const plan = planTransfers(situation).map(({ group, to }) => `${group}>${to}`);
    assert.deepEqual(plan, row.plan, row.title);
  }
});

test('a group moves only to its own voters', () => {
  const plan = planTransfers({
    nodeId: 1,
    draining: false,
    groups: [0, 1, 2, 3].map((id) => ({ id, leader: 1, voters: id === 0 ? [1, 2] : [1, 2, 4] })),
    unreachable: new Set(),
    after: -1,
  });
  assert.deepEqual(
    plan.filter(({ group }) => group === 0),
    [{ group: 0, to: 2 }],
  );
});

/** Shards in which node 1 leads; transfers are answered by `answer` and take effect when it says 200. */
class Cluster {
  readonly gateway = new ScriptedGateway();
  readonly leaders: (number | null)[];
  readonly transfers: string[] = [];
  readonly outcomes: string[] = [];
  readonly errors: unknown[] = [];
  draining = false;
  /** Takes effect at once unless told otherwise. */
  takesEffect = true;
  answer: (group: number, to: number) => CallOutcome = () => 'done';
  readonly balancer: Balancer;

  constructor(leaders: readonly (number | null)[]) {
    this.leaders = [...leaders];
    this.gateway.script = (asked, reply) => {
      if (asked.op === QUERIES.status.number) {
        const all = this.leaders.map((leader, id) => ({ raft_group_id: id, leader, voter_ids: [1, 2, 3] }));
        const groups = all.filter((group) => group.raft_group_id % 2 === asked.shard);
        QUERIES.status.result.write(reply, { raft_groups: groups });
        return;
      }
      assert.equal(asked.op, QUERIES.admin.number);
      const transfer = QUERIES.admin.request.read(asked.query);
      assert(transfer.call === 'transfer');
      this.transfers.push(`${asked.group}>${transfer.node}`);
      const outcome = this.answer(asked.group, transfer.node);
      if (outcome === 'done' && this.takesEffect) this.leaders[asked.group] = transfer.node;
      QUERIES.admin.result.write(reply, { outcome, body: { transferred: outcome === 'done' } });
    };
    this.balancer = new Balancer({
      runtime: new FakeRuntime(),
      nodeId: 1,
      gateway: this.gateway,
      isDraining: () => this.draining,
      onTransfer: ({ group, to }, outcome) => this.outcomes.push(`${group}>${to} ${outcome}`),
      onError: (error) => this.errors.push(error),
    });
  }

  /** The transfers that one round asked for. */
  async round(): Promise<string[]> {
    await this.balancer.tick();
    assert.deepEqual(this.errors, []);
    return this.transfers.splice(0);
  }
}

test('one hand-over a round until the share is fair', async () => {
  const cluster = new Cluster([1, 1, 1, 1, 1, 1]);
  const rounds: string[][] = [];
  for (let i = 0; i < 6; i++) rounds.push(await cluster.round());
  assert.deepEqual(rounds, [['0>2'], ['1>3'], ['2>2'], ['3>3'], [], []]);
  assert.equal(cluster.balancer.transfers, 4);
});

test('a drain ends with no leadership, also when the others hold more than their share', async () => {
  const cluster = new Cluster([1, 1, 2, 3]);
  cluster.draining = true;
  assert.deepEqual([await cluster.round(), await cluster.round(), await cluster.round()], [['0>2'], ['1>3'], []]);
  assert.equal(cluster.balancer.transfers, 2);
  cluster.draining = false;
  assert.deepEqual(await cluster.round(), [], 'the others give back what is too much for them');
});

test('the next candidate when one refuses; a node that refused twice is asked last, and later again', async () => {
  const cluster = new Cluster([1, 1, 1, 1, 1, 1, 3, 3, 3]);
  cluster.draining = true;
  cluster.answer = (_group, to) => (to === 2 ? 'declined' : 'done');
  assert.deepEqual(await cluster.round(), ['0>2', '0>3']);
  assert.deepEqual(await cluster.round(), ['1>2', '1>3']);
  assert.deepEqual(await cluster.round(), ['2>3'], 'node 2 is not asked first any more');
  cluster.draining = false;
  for (let i = 0; i < 8; i++)
    assert.deepEqual(await cluster.round(), [], 'three groups are fair when only two nodes can lead');
  cluster.draining = true;
  cluster.answer = () => 'done';
  assert.deepEqual(await cluster.round(), ['3>2'], 'the pause is over');
});

test('an unreachable node does not leave this one with more than a half', async () => {
  const cluster = new Cluster([1, 1, 1, 1, 1, 2]);
  cluster.answer = (_group, to) => (to === 3 ? 'declined' : 'done');
  assert.deepEqual(await cluster.round(), ['0>3', '0>2']);
  // Two each would be fair for three nodes, so node 2 has enough; after the second refusal node 3 is out of the share.
  assert.deepEqual(await cluster.round(), ['1>3']);
  assert.deepEqual([await cluster.round(), await cluster.round()], [['2>2'], []]);
});

test('a group that cannot be moved does not hold up the others', async () => {
  const cluster = new Cluster([1, 1, 1]);
  cluster.draining = true;
  cluster.answer = (group) => (group === 0 ? 'refused' : 'done');
  assert.deepEqual(await cluster.round(), ['0>2', '0>3', '1>2']);
  assert.deepEqual(await cluster.round(), ['2>3']);
  assert.deepEqual(await cluster.round(), ['0>2', '0>3']);
  cluster.answer = () => 'done';
  assert.deepEqual(await cluster.round(), ['0>2'], 'being busy is nothing against a node');
});

test('a hand-over without effect is waited for, then speaks against its receiver', async () => {
  const cluster = new Cluster([1, 2, 2, 3, 3]);
  cluster.draining = true;
  cluster.takesEffect = false;
  assert.deepEqual(await cluster.round(), ['0>2']);
  assert.deepEqual(await cluster.round(), [], 'under way');
  assert.deepEqual(await cluster.round(), ['0>2'], 'once may be chance');
  assert.deepEqual(await cluster.round(), []);
  cluster.takesEffect = true;
  assert.deepEqual(await cluster.round(), ['0>3']);
  assert.deepEqual(await cluster.round(), []);
  assert.equal(cluster.leaders[0], 3);
});

test('a hand-over is reported when it has taken effect, or has not in its time', async () => {
  const cluster = new Cluster([1, 1, 1, 1]);
  cluster.takesEffect = false;
  assert.deepEqual(await cluster.round(), ['0>2']);
  assert.deepEqual(cluster.outcomes, []);
  cluster.leaders[0] = 2;
  await cluster.round();
  assert.deepEqual(cluster.outcomes, ['0>2 done']);
  for (let i = 0; i < 3; i++) await cluster.round();
  assert.deepEqual(cluster.outcomes.slice(1, 2), ['1>3 failed']);
});

test('when no node accepts anything, a round asks a bounded number of times', async () => {
  const cluster = new Cluster(Array.from({ length: 64 }, () => 1));
  cluster.draining = true;
  cluster.answer = () => 'declined';
  assert.deepEqual(await cluster.round(), ['0>2', '0>3', '1>2', '1>3'], 'both refused twice');
  for (let i = 0; i < 5; i++) assert.equal((await cluster.round()).length, 16);
  assert.equal(cluster.balancer.transfers, 0);
});

test('a shard that is busy or stopping ends the round; a broken answer is reported and the next round continues', async () => {
  const cluster = new Cluster([1, 1, 1, 1]);
  cluster.gateway.full = true;
  assert.deepEqual(await cluster.round(), []);
  cluster.gateway.full = false;
  const { script } = cluster.gateway;
  cluster.gateway.script = (_asked, reply) => {
    reply.code = errorNumber('STOPPING');
  };
  assert.deepEqual(await cluster.round(), []);
  cluster.gateway.script = (_asked, reply) => {
    // An array of two, which are missing.
    reply.body = Uint8Array.of(0x92);
  };
  await cluster.balancer.tick();
  assert.equal(cluster.errors.splice(0).length, 1);
  cluster.gateway.script = script;
  assert.deepEqual(await cluster.round(), ['0>2']);
});

test('rounds do not overlap while a shard is slow', async () => {
  const cluster = new Cluster([1, 1, 1, 1]);
  const { script } = cluster.gateway;
  cluster.gateway.script = () => false;
  const slow = cluster.balancer.tick();
  await cluster.balancer.tick();
  assert.equal(cluster.gateway.heldCount, 2, 'one question to each of two shards');
  cluster.gateway.script = script;
  cluster.gateway.release((asked, reply) => void script(asked, reply));
  await slow;
  assert.deepEqual(cluster.transfers, ['0>2']);
});
