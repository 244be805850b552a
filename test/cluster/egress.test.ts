// Three real nodes whose ways to each other lead through relays: what the egress gate does when large messages are
// lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { requestOnce } from '../support/raw-client.ts';
import { Relay, type Loss } from '../support/relay.ts';

/** Twice the nodes, so that the balancer gives every node some. */
const GROUPS = 6;
const NODES = [1, 2, 3] as const;
/** Quick, but with the patience that a machine under load needs. */
const GATE = `
[governance.cluster_probe]
interval = "100ms"
timeout = "1s"
unhealthy_ticks = 2
heal_ticks = 3
`;
const TEXT = { 'Content-Type': 'text/plain' } as const;

interface Relays {
  /** Loses the node's messages to all others. */
  lose(node: number, loss: Loss): void;
}

async function withRelays(body: (cluster: TestCluster, relays: Relays) => Promise<void>): Promise<void> {
  const relays = new Map<string, Relay>();
  for (const from of NODES) for (const to of NODES) relays.set(`${from}>${to}`, await Relay.open());
  const via = (from: number, to: number, port: number): number => {
    const relay = relays.get(`${from}>${to}`) as Relay;
    relay.targetPort = port;
    return relay.port;
  };
  const cluster = await TestCluster.create({ groups: GROUPS, toml: GATE, via });
  try {
    await cluster.startAll();
    await body(cluster, {
      lose: (node, loss) => {
        for (const to of NODES) (relays.get(`${node}>${to}`) as Relay).loses = loss;
      },
    });
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
    for (const relay of relays.values()) relay.close();
  }
}

/** As a peer reads it: on the cluster plane. */
async function shed(cluster: TestCluster, id: number): Promise<Record<string, unknown>> {
  const answer = await requestOnce(cluster.clusterPort(id), 'GET', '/__svc/leadership-shed');
  assert.equal(answer.status, 200);
  return JSON.parse(answer.body.toString('utf8')) as Record<string, unknown>;
}

async function hasBits(cluster: TestCluster, id: number, bits: number): Promise<void> {
  await until(`bits ${bits} on node ${id}`, async () => (await shed(cluster, id))['bits'] === bits);
}

async function leadsOf(cluster: TestCluster, id: number): Promise<number> {
  return (await cluster.groups(id)).filter(({ leader }) => leader === id).length;
}

async function writeAll(cluster: TestCluster, id: number, round: string): Promise<void> {
  for (let i = 0; i < 8; i++) {
    const path = `/egress/${round}-${i}`;
    await cluster.client(id).create(path, TEXT, 'x');
  }
}

test('nodes whose messages are lost, large ones or all, give their leaderships away, but not when all are impaired', async () => {
  await withRelays(async (cluster, relays) => {
    await until('every node leads', async () =>
      (await Promise.all(NODES.map((id) => leadsOf(cluster, id)))).every((n) => n > 0),
    );
    relays.lose(1, 'http');
    await hasBits(cluster, 1, 2);
    assert.deepEqual(await shed(cluster, 1), {
      bits: 2,
      state: 'cluster-egress',
      should_accept_transfer: false,
      should_campaign: false,
      should_shed_current_leaders: true,
    });
    await until('node 1 leads nothing', async () => (await leadsOf(cluster, 1)) === 0);
    // One that stands still for a moment takes that for a bad path as well, and recovers.
    for (const id of [2, 3]) await hasBits(cluster, id, 0);
    await writeAll(cluster, 1, 'impaired');
    relays.lose(1, 'nothing');
    await hasBits(cluster, 1, 0);
    await until('node 1 leads again', async () => (await leadsOf(cluster, 1)) > 0);
    await writeAll(cluster, 1, 'healed');
    assert(((await cluster.metrics(1))['cluster_probe_trips'] as number) >= 1);

    // It hears the others, and is not heard.
    relays.lose(1, 'everything');
    await hasBits(cluster, 1, 2);
    await until('the others lead everything', async () => {
      const leaders = (await cluster.groups(2)).map(({ leader }) => leader);
      return leaders.every((leader) => leader === 2 || leader === 3);
    });
    await writeAll(cluster, 2, 'without');
    relays.lose(1, 'nothing');
    await hasBits(cluster, 1, 0);
    await cluster.settled();

    // When all are impaired at once no leadership is taken away, and a group whose leader is gone gets another one.
    await until('node 1 leads once more', async () => (await leadsOf(cluster, 1)) > 0);
    for (const id of NODES) relays.lose(id, 'http');
    for (const id of NODES) await hasBits(cluster, id, 2);
    await writeAll(cluster, 2, 'all-impaired');
    relays.lose(1, 'everything');
    // Impaired nodes do not campaign at first: that may take longer than a write waits.
    await until('another node leads', async () =>
      (await cluster.groups(2)).every(({ leader }) => leader !== null && leader !== 1),
    );
    await writeAll(cluster, 2, 'without-leader');
    for (const id of [2, 3]) assert.equal((await shed(cluster, id))['bits'], 2);
  });
});
