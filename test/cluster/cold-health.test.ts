// Three real nodes over one cold store, each with its own path to it. A node whose path breaks hands its groups to the
// others, which upload the bytes. When no node reaches the store, nothing moves and every group keeps a leader.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, symlinkSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const KIB = 1024;
/** Twice the nodes, so that the balancer gives every node some. */
const GROUPS = 6;
const NODES = [1, 2, 3] as const;
const HOT_BYTES_MAX = 256 * KIB;
const BODY = 'x'.repeat(64 * KIB);
/** Some in every group. */
const STREAMS = 24;
const PATIENCE_MS = 120_000;
const TEXT = { 'Content-Type': 'text/plain' } as const;

const SETTINGS = `
[governance.cold_health]
interval = "200ms"
unhealthy_ticks = 3
heal_ticks = 3
[governance.cluster_probe]
# On a busy machine its findings would be in the states that are compared here.
interval = "0s"
`;

class Ways {
  readonly folder = temporaryFolder('cold-ways');

  constructor() {
    mkdirSync(join(this.folder, 'store'));
    for (const id of NODES) this.mend(id);
  }

  /** Where the node sees the store. */
  of(id: number): string {
    return join(this.folder, `seen-by-${id}`);
  }

  break(id: number): void {
    unlinkSync(this.of(id));
  }

  mend(id: number): void {
    // A put that was in progress when it broke may have created directories for its object; they belong to no store.
    rmSync(this.of(id), { recursive: true, force: true });
    symlinkSync('store', this.of(id));
  }

  toml(id: number): string {
    return `[storage.cold]
backend = "dir"
dir = "${this.of(id)}"
root = "of/the/test"
flush_interval = "200ms"
flush_size = "64 KiB"
max_hot_size_per_group = "${HOT_BYTES_MAX / KIB} KiB"
`;
  }
}

async function shed(cluster: TestCluster, id: number): Promise<string> {
  const { body } = await requestOnce(cluster.clusterPort(id), 'GET', '/__svc/leadership-shed');
  return (JSON.parse(body.toString('utf8')) as { state: string }).state;
}

async function leadsOf(cluster: TestCluster, id: number): Promise<number> {
  return (await cluster.groups(id)).filter(({ leader }) => leader === id).length;
}

/** As a peer asks whether the node reaches the store. */
async function probe(cluster: TestCluster, id: number): Promise<number> {
  return (await requestOnce(cluster.clusterPort(id), 'POST', '/__svc/cold-probe')).status;
}

async function isAllCold(cluster: TestCluster): Promise<boolean> {
  const hot = await Promise.all(NODES.map(async (id) => (await cluster.metrics(id))['cold_hot_bytes']));
  return hot.every((bytes) => bytes === 0);
}

const PATHS = Array.from({ length: STREAMS }, (_, i) => `/health/s${i}`);

/** Appends to every stream until each has this many more; retries what is refused for lack of space. */
async function write(cluster: TestCluster, id: number, appends: number): Promise<void> {
  const fill = async (path: string): Promise<void> => {
    const client = await RawClient.connect(cluster.node(id).port);
    try {
      for (let i = 0; i < appends; i++) {
        const isTaken = async (): Promise<boolean> => (await client.request('POST', path, TEXT, BODY)).status < 300;
        await until(`${path} takes an append`, isTaken, PATIENCE_MS);
      }
    } finally {
      client.destroy();
    }
  };
  await Promise.all(PATHS.map(fill));
}

test('a node that does not reach the cold store gives its groups to those that do', async () => {
  const ways = new Ways();
  const cluster = await TestCluster.create({
    groups: GROUPS,
    toml: SETTINGS,
    tomlOf: (id) => ways.toml(id),
  });
  try {
    await cluster.startAll();
    for (const path of PATHS) await cluster.client(2).create(path, TEXT);
    await until('every node leads', async () =>
      (await Promise.all(NODES.map((id) => leadsOf(cluster, id)))).every((n) => n > 0),
    );
    await write(cluster, 2, 1);

    ways.break(1);
    // Each group gets several times what it may keep, so its leader must upload all of it.
    await write(cluster, 2, 3);
    await until('node 1 says why', async () => (await shed(cluster, 1)) === 'cold-health', PATIENCE_MS);
    await until('node 1 leads nothing', async () => (await leadsOf(cluster, 1)) === 0, PATIENCE_MS);
    for (const id of [2, 3]) await until(`node ${id} is well`, async () => (await shed(cluster, id)) === 'none');
    for (const id of NODES) {
      await until(`node ${id} answers its peers`, async () => (await probe(cluster, id)) === (id === 1 ? 503 : 200));
    }
    assert.equal((await requestOnce(cluster.clusterPort(2), 'GET', '/__svc/cold-probe')).status, 405);
    const tripsOf = async (id: number): Promise<number> => (await cluster.metrics(id))['cold_health_trips'] as number;
    assert((await tripsOf(1)) >= 1);

    // No node reaches it any more, so no node hands anything over.
    await until('everything is in the store', () => isAllCold(cluster), PATIENCE_MS);
    // None, unless a node stood still.
    const tripsBefore = await Promise.all([2, 3].map(tripsOf));
    ways.break(2);
    ways.break(3);
    // Findings are reused for a second; nothing is hot, so no node probes before they are known.
    for (const id of [2, 3]) {
      await until(`node ${id} does not reach it`, async () => (await probe(cluster, id)) === 503, PATIENCE_MS);
    }
    const refuse = async (path: string): Promise<void> => {
      const client = await RawClient.connect(cluster.node(2).port);
      const isRefused = async (): Promise<boolean> => (await client.request('POST', path, TEXT, BODY)).status === 503;
      await until(`an append to ${path} is refused at last`, isRefused, PATIENCE_MS);
      client.destroy();
    };
    await Promise.all(PATHS.map(refuse));
    assert.deepEqual(await Promise.all([2, 3].map(tripsOf)), tripsBefore);
    await cluster.end(3);
    await until(
      'every group has a leader, be it the node that was cut off first',
      async () => (await cluster.groups(2)).every(({ leader }) => leader === 1 || leader === 2),
      PATIENCE_MS,
    );

    for (const id of NODES) ways.mend(id);
    await cluster.restart(3);
    await until('node 1 is as the others again', async () => (await shed(cluster, 1)) === 'none', PATIENCE_MS);
    await write(cluster, 1, 1);
    await until('node 1 leads again', async () => (await leadsOf(cluster, 1)) > 0, PATIENCE_MS);
    await until('everything is in the store at the end', () => isAllCold(cluster), PATIENCE_MS);
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    await cluster.dispose();
    removeFolder(ways.folder);
  }
});
