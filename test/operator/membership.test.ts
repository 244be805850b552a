// add-member and remove-member before nodes that say what the test has them say.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type CtlResult, ctl, scratchFile } from '../support/ctl.ts';

/** Members of an entry of `raft_groups`. */
type Group = Readonly<Record<string, unknown>>;

/** Nodes of one group. */
class Stage {
  /** Changes that nodes were asked for. */
  readonly asked: string[] = [];
  /** As each node sees the group; undefined: the node does not say. */
  readonly groups = new Map<number, Group | undefined>();
  /** Gives the answer to a change. */
  answer: (call: string) => readonly [status: number, body: unknown] = () => [200, {}];
  #config = '';

  async open(t: TestContext, groups: Readonly<Record<number, Group | undefined>>): Promise<void> {
    const lines: string[] = [];
    for (const [name, group] of Object.entries(groups)) {
      const id = Number(name);
      this.groups.set(id, group);
      const server = createServer(({ method, url }, response) => {
        const [status, body] = method === 'GET' ? this.#metricsOf(id) : this.#change(`node ${id}: ${method} ${url}`);
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.after(() => server.close());
      const { port } = server.address() as AddressInfo;
      lines.push(`[[nodes]]\nid = ${id}\nhost = "127.0.0.1"\nadmin_port = ${port}\n`);
    }
    this.#config = scratchFile('cluster.toml', lines.join(''));
  }

  #metricsOf(id: number): [number, unknown] {
    const group = this.groups.get(id);
    if (group === undefined) return [500, 'broken'];
    return [200, { node_id: id, raft_groups: [{ raft_group_id: 0, current_term: 5, committed_index: 90, ...group }] }];
  }

  #change(call: string): readonly [number, unknown] {
    this.asked.push(call);
    return this.answer(call);
  }

  run(verb: string, node: number, seconds = 30): Promise<CtlResult> {
    const interval = verb === 'allow-rejoin' ? [] : ['--poll-interval-secs', '0.05'];
    const pace = [...interval, '--timeout-secs', String(seconds)];
    return ctl([verb, '--config', this.#config, '--node', String(node), ...pace]);
  }
}

async function stageOf(t: TestContext, groups: Readonly<Record<number, Group | undefined>>): Promise<Stage> {
  const stage = new Stage();
  await stage.open(t, groups);
  return stage;
}

/** The first node of the file has term and leader from heartbeats, and the voters of an older log. */
const STALE: Group = { leader: 2, voter_ids: [1, 2, 3], last_log_index: 40 };
const NOW: Group = { leader: 2, voter_ids: [1, 2, 3, 4], last_log_index: 100 };

test("a new set of voters is made of the leader's, whatever a node before it in the file says", async (t) => {
  for (const stale of [STALE, { ...STALE, last_log_index: 0, log_lost: 'asking' }]) {
    const stage = await stageOf(t, { 1: stale, 2: NOW, 3: NOW, 4: NOW, 5: { leader: null, voter_ids: [] } });
    stage.answer = (call) => {
      const voters = /voters=(.*)$/.exec(call)?.[1]?.split(',').map(Number);
      if (voters !== undefined) stage.groups.set(2, { ...NOW, voter_ids: voters });
      return [200, {}];
    };
    const added = await stage.run('add-member', 5);
    assert.equal(added.code, 0, added.stderr);
    const removed = await stage.run('remove-member', 3);
    assert.equal(removed.code, 0, removed.stderr);
    assert.deepEqual(stage.asked, [
      'node 2: POST /__svc/raft/0/learners/5',
      'node 2: POST /__svc/raft/0/membership?voters=1,2,3,4,5',
      'node 2: POST /__svc/raft/0/membership?voters=1,2,4,5',
    ]);
  }
});

test('no set of voters is made of what another node says than the leader', async (t) => {
  const stage = await stageOf(t, { 1: STALE, 2: undefined, 3: NOW, 4: NOW, 5: { leader: null, voter_ids: [] } });
  for (const [verb, node] of [['add-member', 5] as const, ['remove-member', 3] as const]) {
    const { code, stderr } = await stage.run(verb, node, 0.2);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /not within 0\.2 s: group 0 left; node 2, which leads group 0, does not answer; repeat the/);
  }
  // Nor is a node gone because some node does not know it.
  stage.groups.set(3, STALE).set(4, STALE);
  assert.equal((await stage.run('remove-member', 4, 0.2)).code, 1);
  const away = { ...NOW, leader: 9 };
  const led = await stageOf(t, { 1: away, 2: away, 3: away });
  assert.match((await led.run('remove-member', 3, 0.2)).stderr, /; node 9, which leads group 0, is not in \S+; repeat/);
  assert.deepEqual([...stage.asked, ...led.asked], []);
});

test('a change ends when it is committed, not when the leader has it in its log', async (t) => {
  const before = { leader: 1, voter_ids: [1, 2, 3] };
  const joint = { ...before, voter_ids: [1, 2], outgoing_voter_ids: [1, 2, 3], membership_pending: true };
  const final = { ...before, voter_ids: [1, 2], membership_pending: true };
  const done = { ...before, voter_ids: [1, 2] };
  const stage = await stageOf(t, { 1: before, 2: before, 3: before });
  const steps = [joint, joint, final, done];
  stage.answer = () => {
    const step = steps.shift();
    stage.groups.set(1, step).set(2, step);
    return step === done ? [200, {}] : [503, { reason: 'not committed yet' }];
  };
  const { code, stdout, stderr } = await stage.run('remove-member', 3);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^node 3: no member of any of 1 groups; stop it/);
  const call = 'node 1: POST /__svc/raft/0/membership?voters=1,2';
  assert.deepEqual(stage.asked, [call, call, call, call]);
});

test('a node that the leader has among the voters before it votes is not yet added', async (t) => {
  const before = { leader: 1, voter_ids: [1, 2, 3] };
  const joint = { leader: 1, voter_ids: [1, 2, 3, 4], outgoing_voter_ids: [1, 2, 3], membership_pending: true };
  const stage = await stageOf(t, { 1: joint, 2: joint, 3: before, 4: { leader: null, voter_ids: [] } });
  stage.answer = () => {
    stage.groups.set(1, { leader: 1, voter_ids: [1, 2, 3, 4] });
    return [200, {}];
  };
  const { code, stdout } = await stage.run('add-member', 4);
  assert.deepEqual([code, stdout], [0, 'node 4: voter of all 1 groups\n']);
  // It is no learner any more, so the leader would refuse to make it one.
  assert.deepEqual(stage.asked, ['node 1: POST /__svc/raft/0/membership?voters=1,2,3,4']);
});

test('nodes that do not say whether a change is committed are believed, as before', async (t) => {
  const before = { leader: 1, voter_ids: [1, 2, 3] };
  const stage = await stageOf(t, { 1: before, 2: before, 3: before });
  stage.answer = () => {
    stage.groups.set(1, { leader: 1, voter_ids: [1, 2] });
    return [503, { reason: 'not committed yet' }];
  };
  assert.equal((await stage.run('remove-member', 3)).code, 0);
  assert.equal(stage.asked.length, 1);
});

test('a cluster whose changes are answered and never in force is given up on at the deadline', async (t) => {
  const before = { leader: 1, voter_ids: [1, 2, 3] };
  const stage = await stageOf(t, { 1: before, 2: before, 3: before });
  // Without a deadline the tool would not stop; so many calls take far longer than it.
  stage.answer = () => (stage.asked.length < 2000 ? [200, {}] : [400, 'too many calls']);
  const { code, stderr } = await stage.run('remove-member', 3, 0.2);
  assert.equal(code, 1, stderr);
  assert.match(stderr, /not within 0\.2 s: group 0 left; repeat the command to go on$/m);
  assert(stage.asked.length > 0);
});

test('leaders that allow a rejoin and move each time are given up on at the deadline', async (t) => {
  const group = { leader: 1, voter_ids: [1, 2, 3] };
  const stage = await stageOf(t, { 1: group, 2: group, 3: undefined });
  stage.answer = () => {
    if (stage.asked.length === 2000) return [400, 'too many calls'];
    stage.groups.set(1, { ...group, current_term: 5 + stage.asked.length });
    return [200, {}];
  };
  // A single look takes a second, so the first one is late already; when the leader stays it is enough.
  const { code, stderr } = await stage.run('allow-rejoin', 3, 0.2);
  assert.equal(code, 1, stderr);
  assert.match(stderr, /not within 0\.2 s: the leadership of group 0 has just moved; without a majority/);
  stage.answer = () => [200, {}];
  assert.equal((await stage.run('allow-rejoin', 3, 0.2)).code, 0);
});
