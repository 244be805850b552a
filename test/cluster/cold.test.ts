// A cluster over a real S3 server that is killed, hangs and comes back, while nodes die, under appends of all sizes.
// Everything acknowledged is there, cold and hot, on every node; disks stay small; and
// when all streams are gone, so are the objects.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cephMissing } from '../support/ceph.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { S3TestStore, STORE_ROOT } from '../support/cold-store.ts';
import { createRandom, type Random, seedFromEnvironment } from '../support/random.ts';
import { DiskCurve } from './cold-disk.ts';
import { type BlobStream, type BlobTally, checkBlobs } from './cold-history.ts';
import { type Doors, newBlobStream, newDoors, readRecords, readWhole, typeOf, writeBlobs } from './cold-load.ts';
import { follow, followEvents } from './follow.ts';
import { type Shown, checkStream, newStream, newTally } from './history.ts';
import { type Load, newLoad, pause, write } from './load.ts';

/** More rounds for a long run. */
const SCALE = Number(process.env['FAULTS'] ?? 1);
const GROUPS = 2;
const MIB = 1024 * 1024;
const HOT_BYTES_MAX = MIB / 4;
const WRITERS = 4;
const OWN_STREAMS = 2;
/** A hung store is waited for so long beyond `s3.timeout`. */
const HUNG_MS = 2000;
const CALM_BYTES = MIB / 4;
const PATIENCE_MS = 120_000;
/**
 * Hot rows and log of all groups, several times over: LMDB reuses pages two commits later and its files never shrink.
 */
const DATABASE_BYTES_MAX = 96 * MIB;
const RECORDS_PER_READ = 37;
const TENANT = 'tenant';
const OTHER = 'other';
const TEXT = { 'Content-Type': 'text/plain' } as const;

const SETTINGS = `
s3.timeout = "1s"
s3.max_retries = 1
flush_interval = "300ms"
flush_size = "64 KiB"
flush_max_size = "128 KiB"
max_hot_size_per_group = "${HOT_BYTES_MAX / 1024} KiB"
cache.max_size = "1 MiB"
gc_interval = "200ms"
gc_grace = "500ms"
compaction_gc_grace = "500ms"
sweep_interval = "1s"
sweep_grace = "10s"
`;

interface Stage {
  readonly cluster: TestCluster;
  readonly store: S3TestStore;
  readonly load: Load;
  readonly doors: Doors;
  readonly random: Random;
}

/** Every group has refused or taken something since this was called, or says so now. */
async function everyGroup(what: string, counts: readonly number[]): Promise<void> {
  const before = [...counts];
  await until(
    () => `${what} in every group: ${counts.join(' ')} after ${before.join(' ')}`,
    () => Promise.resolve(counts.every((count, group) => count > (before[group] as number))),
    PATIENCE_MS,
  );
}

async function admission(cluster: TestCluster): Promise<string[]> {
  const all = await Promise.all(cluster.runningIds.map((id) => cluster.metrics(id)));
  return all.map((metrics) => (metrics['cold_write_admission'] as { state: string }).state);
}

async function killLeader({ cluster, random }: Stage, awayMs: number): Promise<void> {
  const victim = await cluster.leaderOf(random.int(0, GROUPS - 1));
  await cluster.kill(victim);
  await pause(awayMs);
  await cluster.restart(victim);
}

/** The store is down until every group refuses writes; then everything recovers without help. */
async function outage(stage: Stage, what: 'killed' | 'frozen'): Promise<void> {
  const { cluster, store, doors, random } = stage;
  if (what === 'killed') await store.ceph.killGateway();
  else store.ceph.freezeGateway();
  await everyGroup('back-pressure', doors.refused);
  await until('the metrics tell it', async () => (await admission(cluster)).includes('refusing'));
  await killLeader(stage, random.int(0, 300));
  if (what === 'frozen') await pause(HUNG_MS);
  await cluster.ready(cluster.ids);
  if (what === 'killed') await store.ceph.startGateway();
  else store.ceph.thawGateway();
  await everyGroup('appends are taken again', doors.acknowledged);
  await everyGroup('appends are taken again', doors.acknowledged);
}

/** Undisturbed work until so much more is in the cold store. */
async function calm({ cluster }: Stage): Promise<void> {
  const cold = async (): Promise<number> => (await cluster.metrics(1))['cold_bytes'] as number;
  const before = await cold();
  await until('the cold store takes what is appended', async () => (await cold()) >= before + CALM_BYTES, PATIENCE_MS);
}

async function round(stage: Stage): Promise<void> {
  const { cluster, store, random } = stage;
  await calm(stage);
  await outage(stage, 'killed');
  await calm(stage);
  await outage(stage, 'frozen');
  await calm(stage);
  // Short: uploads and reads are cut off and do not delay the test.
  await store.ceph.killGateway();
  await pause(random.int(0, 300));
  await store.ceph.startGateway();
  await Promise.all(cluster.ids.map((id) => cluster.kill(id)));
  await Promise.all(cluster.ids.map((id) => cluster.restart(id)));
  await cluster.ready(cluster.ids);
}

/** Every node shows the same and all of it, by offset, in small steps and by record. */
async function check(cluster: TestCluster, streams: readonly BlobStream[]): Promise<BlobTally> {
  const tally: BlobTally = { acknowledged: 0, bytes: 0, refused: 0, unknownPresent: 0, unknownAbsent: 0 };
  for (const stream of streams) {
    const [first, second, third] = cluster.ids.map((id) => cluster.node(id).port) as [number, number, number];
    const content = await readWhole(first, stream);
    checkBlobs(stream, content, tally);
    const others = [readWhole(second, stream), readWhole(third, stream, stream.isJson ? '' : '&max_bytes=300001')];
    if (stream.isJson) others.push(readRecords(third, stream, RECORDS_PER_READ));
    for (const other of await Promise.all(others)) {
      assert(other.equals(content), `${stream.path}: ${other.length} of ${content.length} bytes on another node`);
    }
  }
  return tally;
}

function list(counts: ReadonlyMap<unknown, number>): string {
  return [...counts].map(([what, count]) => `${String(what)}: ${count}`).join(', ');
}

async function nothingHot(cluster: TestCluster): Promise<void> {
  await until(
    'nothing is hot on any node',
    async () => {
      const all = await Promise.all(cluster.ids.map((id) => cluster.metrics(id)));
      return all.every((metrics) => metrics['cold_hot_bytes'] === 0);
    },
    PATIENCE_MS,
  );
}

/** One bucket stream by stream, the other one by a purge; then the store is looked at until it is empty. */
async function eraseAll(cluster: TestCluster, store: S3TestStore, streams: readonly { path: string }[]): Promise<void> {
  await cluster.node(2).admin.expect(200, 'DELETE', `/__svc/purge/${TENANT}`);
  for (const { path } of streams) {
    if (!path.startsWith(`/${OTHER}/`)) continue;
    await cluster.client(3).delete(path);
  }
  let left: string[] = [];
  await until(
    () => `the store is empty; it holds ${left.length}: ${left.slice(0, 5).join(' ')}`,
    async () => {
      // A node that died while the store hung may have left the object of its proof of access; another one takes it
      // along.
      left = (await store.keys()).filter((key) => !key.startsWith(`${STORE_ROOT}/probe/`));
      return left.length === 0;
    },
    PATIENCE_MS,
  );
  for (const id of cluster.ids) {
    await until(`node ${id} knows of no object`, async () => {
      const metrics = await cluster.metrics(id);
      return metrics['cold_bytes'] === 0 && metrics['cold_objects'] === 0 && metrics['cold_gc_queue_length'] === 0;
    });
  }
}

test('S3 that dies, hangs and returns, nodes that die, under load', { skip: cephMissing() ?? false }, async () => {
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`cluster over S3: SEED=${random.seed}\n`);
  const store = await S3TestStore.start();
  try {
    await withCluster({ process: true, groups: GROUPS, toml: store.toml + SETTINGS }, async (cluster) => {
      const since = performance.now();
      const own = Array.from({ length: WRITERS }, (_, writer) =>
        Array.from({ length: OWN_STREAMS }, (__, i) =>
          newBlobStream(writer % 2 === 0 ? TENANT : OTHER, `w${writer}-${i}`, i % 2 === 0),
        ),
      );
      const shared = Array.from({ length: GROUPS }, (_, i) => newBlobStream(TENANT, `shared-${i}`, i % 2 === 1));
      const blobs = [...shared, ...own.flat()];
      const live = [newStream(OTHER, 'live-0'), newStream(OTHER, 'live-1')];
      const client = cluster.client(1);
      for (const stream of blobs) await client.create(stream.path, typeOf(stream));
      for (const { path } of live) await client.create(path, TEXT);
      await cluster.settled();
      const load = newLoad(cluster, TENANT);
      const doors = newDoors(GROUPS);
      const curve = new DiskCurve(cluster);
      const work = [
        ...own.map((mine, id) => writeBlobs(load, doors, id, [...mine, ...shared], id % 4 < 2, random.seed + 10 * id)),
        write(load, WRITERS, live, true, random.seed + 1000),
        ...live.flatMap((stream, i) => [
          follow(load, stream, random.seed + 2000 + i),
          followEvents(load, stream, random.seed + 3000 + i),
        ]),
      ];
      const all = Promise.all(work);
      try {
        const act = async (): Promise<void> => {
          for (let i = 0; i < SCALE; i++) await round({ cluster, store, load, doors, random });
        };
        await Promise.race([act(), all]);
        load.stop();
      } catch (error) {
        load.stop();
        await Promise.allSettled(work);
        throw error;
      } finally {
        curve.stop();
      }
      const shown = (await all).slice(WRITERS + 1) as Shown[];
      await cluster.ready(cluster.ids);
      await cluster.settled(cluster.ids);
      // Some is hot still, most is cold; then all of it is.
      const mixed = await check(cluster, blobs);
      await nothingHot(cluster);
      await check(cluster, blobs);
      const tally = newTally();
      for (const [i, stream] of live.entries()) {
        const content = await readWhole(cluster.node(1).port, { ...stream, appends: new Map() });
        checkStream(stream, content, tally);
        for (const one of shown.slice(2 * i, 2 * i + 2)) one.check(stream, content, tally);
      }
      const seconds = Math.round((performance.now() - since) / 1000);
      process.stdout.write(
        `  ${seconds} s, ${mixed.acknowledged + tally.acknowledged} appends acknowledged, ${(mixed.bytes / MIB).toFixed(0)} MiB; ` +
          `${mixed.refused} refused for good; without an answer: ${mixed.unknownPresent} took effect, ` +
          `${mixed.unknownAbsent} did not\n  answers by status: ${list(load.statuses)}\n  not taken at once: ${list(doors.sentences)}\n${curve.lines()}`,
      );
      assert(curve.maxBytes < DATABASE_BYTES_MAX, `LMDB took ${curve.maxBytes} bytes`);
      await eraseAll(cluster, store, [...blobs, ...live]);
    });
  } finally {
    await store.stop();
  }
});
