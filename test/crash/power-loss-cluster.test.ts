// The power fails on three nodes at once, while one of them is far behind: whatever their disks hold, together they have
// everything that was acknowledged.
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { look, wantedOf } from '../campaign/content.ts';
import { CLUSTER, type ClusterKind, HOT, NODES, Prepared } from '../campaign/prepared.ts';
import { type NodeDisk, TestCluster } from '../support/cluster.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { readAll } from './look.ts';
import { Recording, imagesOf } from './recording.ts';
import { hasStrace } from './strace.ts';

const IMAGES = imagesOf(1, 0.1);
/** In a long run node 3 gets group snapshots meanwhile: their preparation writes 24 MiB. */
const HOW: ClusterKind = IMAGES > 2 ? 'behind' : 'lagging';
const APPENDS = 40;
const PATH = '/power/s';
const TEXT = { 'Content-Type': 'text/plain' };
const bodyOf = (i: number): string => `${i};`.padEnd(3000, 'x').concat('\n');

interface Run {
  readonly recordings: readonly Recording[];
  /** When the acknowledgements were there, in order. */
  readonly acknowledgedMs: readonly number[];
}

async function traced(t: TestContext, prepared: Prepared): Promise<Run> {
  const folder = temporaryFolder('power-nodes');
  const disks = new Map<number, NodeDisk>();
  const recordings = NODES.map((id) => {
    const path = `${folder}/node-${id}`;
    cpSync(prepared.node(HOW, id), path, { recursive: true });
    const recording = new Recording(path);
    disks.set(id, { path, enter: recording.wrapper });
    return recording;
  });
  const cluster = await TestCluster.create({ ...CLUSTER, process: true, disks });
  t.after(async () => {
    await cluster.dispose();
    for (const recording of recordings) recording.remove();
    removeFolder(folder);
  });
  await cluster.startAll();
  const client = cluster.client(1);
  await client.create(PATH, TEXT);
  const acknowledgedMs: number[] = [];
  for (let i = 0; i < APPENDS; i++) {
    await client.append(PATH, TEXT, bodyOf(i));
    // The clock has gone on by less than a millisecond since.
    acknowledgedMs.push(sinceMidnight() + 1);
  }
  await Promise.all(NODES.map((id) => cluster.kill(id)));
  for (const recording of recordings) recording.read();
  return { recordings, acknowledgedMs };
}

/** As strace tells the time. */
function sinceMidnight(): number {
  const now = new Date();
  return now.getTime() - new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
}

function momentOf({ recordings, acknowledgedMs }: Run, random: Random): number {
  if (random.chance(0.5)) return random.pick(acknowledgedMs) + random.next();
  const recording = random.pick(recordings);
  return recording.timeOf(recording.momentAfter(0, random));
}

test('three nodes that lose their power at once have what was acknowledged', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`power loss of three nodes: SEED=${random.seed}\n`);
  const folder = temporaryFolder('power-prepared');
  t.after(() => removeFolder(folder));
  const prepared = new Prepared(folder);
  await prepared.make(HOW);
  const run = await traced(t, prepared);
  for (let i = 0; i < IMAGES; i++) {
    const moment = momentOf(run, random);
    const acknowledged = run.acknowledgedMs.filter((at) => at < moment).length;
    const where = `SEED=${random.seed} disks ${i}, ${acknowledged} acknowledged`;
    const cluster = await TestCluster.create(CLUSTER);
    try {
      for (const [n, id] of NODES.entries()) {
        const recording = run.recordings[n];
        assert(recording !== undefined);
        const image = recording.image(recording.lineAt(moment), random);
        cpSync(image, cluster.node(id).dataDir, { recursive: true });
      }
      await cluster.startAll();
      await cluster.settled();
      for (const id of NODES) {
        const seen = await look(cluster.node(id).port, wantedOf(HOT));
        assert.deepEqual(seen, { refused: [], wrong: [] }, `${where}: node ${id}`);
        const { content = '' } = (await readAll(cluster.client(id), PATH, false)) ?? {};
        const count = content.length / bodyOf(0).length;
        assert(content === Array.from({ length: count }, (_, n) => bodyOf(n)).join(''), `${where}: node ${id}`);
        assert(count >= acknowledged, `${where}: node ${id} has ${count}`);
      }
    } catch (error) {
      process.stderr.write(`${where}\n${cluster.logs()}`);
      throw error;
    } finally {
      await cluster.dispose();
    }
  }
});
