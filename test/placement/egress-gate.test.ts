// The egress gate: when it trips and heals, what does not count, and that it never leaves a group without a leader.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ClusterProbe, type ProbeOutcome } from '../../src/peer/probe.ts';
import type { BalancedGroup } from '../../src/placement/balancer.ts';
import { EgressGate, egressNews } from '../../src/placement/egress-gate.ts';
import type { EgressState } from '../../src/placement/shed-state.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';

const HOST = '127.0.0.1';
const NODE = 1;

class Rig {
  groups: BalancedGroup[] = [{ id: 0, leader: 1, voters: [1, 2, 3] }];
  outcomes = new Map<number, ProbeOutcome>();
  failure: Error | undefined;
  readonly applied: EgressState[] = [];
  readonly errors: unknown[] = [];
  readonly news: string[] = [];
  egress: EgressState = { isImpaired: false, mayLead: true };
  readonly asked: number[] = [];
  readonly gate = new EgressGate({
    runtime: new FakeRuntime(),
    nodeId: NODE,
    intervalMs: 1000,
    unhealthyTicks: 3,
    healTicks: 2,
    groups: () => this.groups,
    probe: (node) => {
      this.asked.push(node);
      return Promise.resolve(this.outcomes.get(node) ?? 'reached');
    },
    apply: (egress) => {
      if (this.failure !== undefined) return Promise.reject(this.failure);
      this.applied.push(egress);
      return Promise.resolve();
    },
    onChange: (now, _unreached, before) => {
      this.egress = now;
      this.news.push(...egressNews(before, now).map(({ text }) => text));
    },
    onError: (error) => this.errors.push(error),
  });

  /** One letter for each tick: `-` may lead, `I` impaired, `i` impaired and leading anyway. */
  async ticks(count: number): Promise<string> {
    let seen = '';
    for (let i = 0; i < count; i++) {
      await this.gate.tick();
      const { isImpaired, mayLead } = this.egress;
      seen += isImpaired ? (mayLead ? 'i' : 'I') : '-';
    }
    return seen;
  }

  fail(...nodes: readonly number[]): void {
    this.outcomes = new Map(nodes.map((node) => [node, 'failed']));
  }
}

test('it trips after several bad ticks in a row and heals after several good ones', async () => {
  const rig = new Rig();
  assert.equal(await rig.ticks(3), '---');
  rig.fail(2, 3);
  assert.equal(await rig.ticks(2), '--');
  rig.fail();
  assert.equal(await rig.ticks(1), '-');
  rig.fail(2, 3);
  assert.equal(await rig.ticks(5), '--III');
  rig.fail();
  assert.equal(await rig.ticks(1), 'I');
  rig.fail(2, 3);
  assert.equal(await rig.ticks(1), 'I');
  rig.fail();
  assert.equal(await rig.ticks(3), 'I--');
  assert.deepEqual(rig.applied, [
    { isImpaired: true, mayLead: false },
    { isImpaired: false, mayLead: true },
  ]);
  assert.deepEqual(rig.gate.counters, { ticks: 16, badTicks: 8, trips: 1 });
});

test('the log reports a broken path when it breaks, even without any leader, and not when it has healed', async () => {
  const rig = new Rig();
  await rig.ticks(1);
  // Cut off from all nodes: this node loses its groups before it finds out why.
  rig.fail(2, 3);
  rig.groups = [{ id: 0, leader: null, voters: [1, 2, 3] }];
  await rig.ticks(3);
  assert.deepEqual(rig.news.splice(0), [
    'large messages do not reach a majority: this node does not lead until they do',
    'a group has no leader: this node campaigns although it is impaired',
  ]);
  rig.fail();
  rig.groups = [{ id: 0, leader: 2, voters: [1, 2, 3] }];
  await rig.ticks(1);
  assert.deepEqual(rig.news.splice(0), ['every group has a leader: this impaired node does not campaign']);
  await rig.ticks(1);
  assert.deepEqual(rig.news.splice(0), ['large messages reach a majority again: this node may lead']);
});

test('what counts is a majority of each group in which the node votes', async () => {
  const cases: readonly (readonly [voters: readonly (readonly number[])[], failed: readonly number[], seen: string])[] =
    [
      [[[1, 2, 3]], [2], '---'],
      [[[1, 2, 3]], [2, 3], '--I'],
      [[[1, 2]], [2], '--I'],
      [[[1]], [2, 3], '---'],
      [[[1, 2, 3, 4, 5]], [2, 3], '---'],
      [[[1, 2, 3, 4, 5]], [2, 3, 4], '--I'],
      [[[1, 2, 3, 4]], [2, 3], '--I'],
      // One group is enough; one in which it has no vote is none of its business.
      [
        [
          [1, 2, 3],
          [1, 4, 5],
        ],
        [4, 5],
        '--I',
      ],
      [
        [
          [1, 2, 3],
          [4, 5, 6],
        ],
        [4, 5, 6],
        '---',
      ],
      [[], [2, 3], '---'],
    ];
  for (const [voters, failed, seen] of cases) {
    const rig = new Rig();
    rig.groups = voters.map((ids, id) => ({ id, leader: 2, voters: ids }));
    await rig.ticks(1);
    rig.fail(...failed);
    assert.equal(await rig.ticks(3), seen, JSON.stringify([voters, failed]));
  }
});

test('each other voter is asked once a tick', async () => {
  const rig = new Rig();
  rig.groups = [0, 1, 2].map((id) => ({ id, leader: 1, voters: [1, 2, 3] }));
  await rig.ticks(1);
  assert.deepEqual(rig.asked, [2, 3]);
});

test('a node that was suspended accuses no other', async () => {
  const rig = new Rig();
  rig.outcomes = new Map([
    [2, 'unknown'],
    [3, 'failed'],
  ]);
  assert.equal(await rig.ticks(5), '-----');
});

test('while a group has no leader an impaired node campaigns, and stops when some node leads', async () => {
  const rig = new Rig();
  await rig.ticks(1);
  rig.fail(2, 3);
  const led: BalancedGroup = { id: 0, leader: 1, voters: [1, 2, 3] };
  const leaderless: BalancedGroup = { id: 1, leader: null, voters: [1, 2, 3] };
  assert.equal(await rig.ticks(4), '--II');
  rig.groups = [led, leaderless];
  assert.equal(await rig.ticks(4), 'IIii');
  rig.groups = [led, { ...leaderless, leader: 2 }];
  assert.equal(await rig.ticks(2), 'II');
  assert.deepEqual(rig.applied.at(-1), { isImpaired: true, mayLead: false });
  // Cut off from all nodes it has no leader either: no reason to make it wait once they are back.
  const alone = new Rig();
  await alone.ticks(1);
  alone.fail(2, 3);
  alone.groups = [leaderless];
  assert.equal(await alone.ticks(4), '--ii');
});

test('a node that starts before the others waits for them, but not forever', async () => {
  const early = new Rig();
  early.fail(2, 3);
  assert.equal(await early.ticks(20), '-'.repeat(20));
  early.fail();
  assert.equal(await early.ticks(1), '-');
  early.fail(2, 3);
  assert.equal(await early.ticks(3), '--I');
  const alone = new Rig();
  alone.fail(2, 3);
  assert.equal(await alone.ticks(33), `${'-'.repeat(32)}I`);
});

test('a shard that could not be told is told with the next tick', async () => {
  const rig = new Rig();
  await rig.ticks(1);
  rig.fail(2, 3);
  rig.failure = new Error('busy');
  await rig.ticks(4);
  assert.deepEqual([rig.errors.length, rig.applied.length], [2, 0]);
  rig.failure = undefined;
  await rig.ticks(3);
  assert.deepEqual(rig.applied, [{ isImpaired: true, mayLead: false }]);
});

async function listen(t: TestContext, server: ReturnType<typeof createTcpServer>): Promise<number> {
  server.listen(0, HOST);
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

function makeProbe(t: TestContext, timeoutMs: number): (port: number) => Promise<ProbeOutcome> {
  const probe = new ClusterProbe({ runtime: PROCESS_RUNTIME, sizeBytes: 64 * 1024, timeoutMs });
  t.after(() => probe.close());
  return (port) => probe.probe(2, { host: HOST, port });
}

test('a probe reaches a server that answers 200, over one connection, and over a new one when that was closed', async (t) => {
  let status = 200;
  let received = 0;
  let connections = 0;
  const server = createServer((req, res) => {
    req.on('data', (chunk: Buffer) => (received += chunk.length));
    req.on('end', () => res.writeHead(status).end());
  });
  server.on('connection', () => connections++);
  const port = await listen(t, server);
  const probe = makeProbe(t, 20_000);
  for (let i = 1; i <= 3; i++) {
    assert.equal(await probe(port), 'reached');
    assert.deepEqual([received, connections], [i * 64 * 1024, 1]);
  }
  server.closeAllConnections();
  assert.equal(await probe(port), 'reached');
  assert.equal(connections, 2);
  status = 404;
  assert.equal(await probe(port), 'failed');
});

test('a probe fails when nothing listens, when the connection ends, and without an answer', async (t) => {
  const ends = await listen(
    t,
    createTcpServer((socket) => socket.on('error', () => {}).once('data', () => socket.destroy())),
  );
  const silent = await listen(
    t,
    createTcpServer((socket) => {
      socket.on('error', () => {}).resume();
      t.after(() => socket.destroy());
    }),
  );
  const gone = createTcpServer();
  const closed = await listen(t, gone);
  gone.close();
  assert.equal(await makeProbe(t, 20_000)(ends), 'failed');
  assert.equal(await makeProbe(t, 20_000)(closed), 'failed');
  assert.notEqual(await makeProbe(t, 200)(silent), 'reached');
});

test('a process that was suspended learns nothing from silence', async (t) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {}).resume();
    t.after(() => socket.destroy());
  });
  const port = await listen(t, server);
  const probed = makeProbe(t, 50)(port);
  const untilMs = performance.now() + 200;
  while (performance.now() < untilMs);
  assert.equal(await probed, 'unknown');
});
