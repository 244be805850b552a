// One run of chaos: real processes, clients, faults one after the other or two at a time, and a judgement of everything
// that was acknowledged and shown. The seed decides which faults strike, whom, and how long; not when exactly.
import { join } from 'node:path';
import { TICK_MS } from '../../src/shard/shard.ts';
import { mountSmallDisk, type SmallDisk } from '../crash/small-disk.ts';
import { RovingClient, newLoad } from '../cluster/load.ts';
import { TestCluster } from '../support/cluster.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { createRandom } from '../support/random.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { until } from '../support/until.ts';
import { BUCKET, runSlot, type Pace } from './lives.ts';
import { checkKept, eraseEverywhere } from './looks.ts';
import { NETWORK_FAULTS } from './network-faults.ts';
import { LONG_FAULTS, NODE_FAULTS } from './node-faults.ts';
import { Stage, clockFile } from './stage.ts';
import { type World, clock, elapsedMs, newWorld, violated } from './world.ts';

const GROUPS = 4;
/** Only what is used of it takes memory. */
const DISK_BYTES = 1024 * 1024 * 1024;
const SMALL_DISK = /^disk full/;
const CLOCK = join(REPO_ROOT, 'test/chaos/wrong-clock.process.cjs');
const TOGETHER = 0.25;
const WAITING_MS = 10_000;
/** In a run without `minutes`: some of each half of the kinds, those of nodes and those of their network. */
export const KINDS_OF_NODES: number = IS_THOROUGH ? 4 : 2;
export const KINDS_OF_NETWORK: number = IS_THOROUGH ? 3 : 1;

export interface ChaosOptions {
  readonly seed: number;
  readonly nodes: number;
  /** For how long faults strike; left out: once each of some kinds that are no long ones, with short stays. */
  readonly minutes?: number;
  /** Only kinds whose name has one of these words; none: all. */
  readonly only?: readonly string[];
  /** Told of each fault, when it is over. */
  readonly onFault?: (fault: Strike, world: World) => void;
  /** Ends the run early; it is judged nevertheless. */
  readonly signal?: AbortSignal;
}

/** One fault, or two at a time. */
export interface Strike {
  readonly kind: string;
  readonly atMs: number;
  readonly lastedMs: number;
  /** Longest time in which a group acknowledged nothing, until all did again. */
  readonly silentMs: number;
}

export interface ChaosResult {
  readonly world: World;
  readonly strikes: readonly Strike[];
  readonly cores: number;
  readonly kept: number;
  /** Kinds that could not be made here, with the reason. */
  readonly leftOut: readonly string[];
  readonly logs: string;
  /** Each node's memory at the end. */
  readonly memory: readonly { readonly residentBytes: number; readonly anonymousBytes: number }[];
}

type Act = (stage: Stage) => Promise<void>;

export async function chaos(options: ChaosOptions): Promise<ChaosResult> {
  const random = createRandom(options.seed);
  const clocks = temporaryFolder('clocks');
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  const cores = random.int(1, 2);
  const { nodes } = options;
  const isBrisk = options.minutes === undefined;
  const cluster = await TestCluster.create({
    process: true,
    network: true,
    nodes,
    spares: 1,
    groups: GROUPS,
    cores,
    ...(isBrisk ? {} : { tickMs: TICK_MS }),
    disks: disk === undefined ? new Map() : new Map([[nodes, disk]]),
    serverOf: (id) => ({
      nodeArgs: ['--require', CLOCK],
      env: { WRONG_CLOCK: clockFile(clocks, id) },
    }),
  });
  const load = newLoad(cluster, BUCKET, nodes);
  const world = newWorld(cluster, load, random);
  const stage = new Stage({ cluster, random, clocks, disk, isBrisk });
  const strikes: Strike[] = [];
  try {
    await cluster.startAll();
    const pace: Pace = { isBrisk, largeOneIn: isBrisk ? 300 : random.int(500, 2000) };
    const lives = Array.from({ length: GROUPS * nodes }, (_, slot) => runSlot(world, slot, pace));
    await strikeAll(options, { world, stage, disk }, strikes);
    world.isEnding = true;
    await ended(world, lives);
    const kept = world.kept.length;
    await judgeTheEnd(world);
    const memory = cluster.ids.map((id) => cluster.node(id).memory());
    const leftOut = disk === undefined ? [`disk full: ${reason}`] : [];
    return { world, strikes, cores, kept, leftOut, logs: cluster.logs(), memory };
  } catch (error) {
    process.stderr.write(cluster.logs());
    throw error;
  } finally {
    load.stop();
    await stage.heal().catch(() => undefined);
    await cluster.dispose();
    await disk?.dispose();
    removeFolder(clocks);
  }
}

/** Says what it waits for, when that takes long. */
async function ended(world: World, lives: readonly Promise<void>[]): Promise<void> {
  const timer = setInterval(() => {
    const waiting = [...world.alive].map(([name, what]) => `${name} for ${what}`);
    process.stdout.write(`${clock(elapsedMs(world))} waiting: ${waiting.join(', ')}\n`);
  }, WAITING_MS);
  try {
    await Promise.all(lives);
  } finally {
    clearInterval(timer);
  }
}

interface Scene {
  readonly world: World;
  readonly stage: Stage;
  readonly disk: SmallDisk | undefined;
}

async function strikeAll(options: ChaosOptions, scene: Scene, strikes: Strike[]): Promise<void> {
  const { world, stage, disk } = scene;
  const { random } = stage;
  const { only = [], minutes, signal } = options;
  const wanted = (kinds: Readonly<Record<string, Act>>): Kinds =>
    Object.entries(kinds).filter(
      ([kind]) =>
        (only.length === 0 || only.some((word) => kind.includes(word))) &&
        (disk !== undefined || !SMALL_DISK.test(kind)),
    );
  const [network, nodes, long] = [wanted(NETWORK_FAULTS), wanted(NODE_FAULTS), wanted(LONG_FAULTS)];
  const all = [...network, ...nodes, ...long];
  // The long ones have tests of their own.
  const some = (kinds: Kinds, count: number): Kinds => shuffled(kinds, random.next).slice(0, count);
  const once = shuffled([...some(network, KINDS_OF_NETWORK), ...some(nodes, KINDS_OF_NODES)], random.next);
  const isOver = (): boolean =>
    signal?.aborted === true ||
    world.load.over.aborted ||
    (minutes === undefined ? once.length === 0 : elapsedMs(world) > minutes * 60_000);
  await stage.hold(1000, 3000);
  while (!isOver()) {
    const faults = minutes === undefined ? once.splice(0, 1) : [random.pick(all)];
    if (network.length > 0 && nodes.includes(faults[0] as Kind) && minutes !== undefined && random.chance(TOGETHER)) {
      faults.push(random.pick(network));
    }
    const strike = await strikeOnce(scene, faults);
    strikes.push(strike);
    options.onFault?.(strike, world);
    await stage.hold(500, 5000);
  }
}

type Kind = readonly [string, Act];
type Kinds = Kind[];

function shuffled(kinds: Kinds, next: () => number): Kinds {
  return kinds
    .map((kind) => [next(), kind] as const)
    .sort(([a], [b]) => a - b)
    .map(([, kind]) => kind);
}

/** From its begin until every group acknowledges writes again, on a healed cluster. */
async function strikeOnce({ world, stage }: Scene, faults: Kinds): Promise<Strike> {
  const { load, cluster } = world;
  const kind = faults.map(([name]) => name).join(' + ');
  const [atMs, window] = [elapsedMs(world), load.silences.open()];
  for (const [name] of faults) world.faults.add(name);
  try {
    const ends = await Promise.allSettled(faults.map(([, act]) => act(stage)));
    for (const end of ends) if (end.status === 'rejected') violated(world, end.reason);
  } finally {
    world.faults.clear();
    world.lastFault = kind;
  }
  try {
    await stage.heal();
    const healedMs = performance.now();
    await cluster.ready(cluster.ids);
    await until(
      `every group acknowledges writes after ${kind}`,
      () => load.over.aborted || world.isEnding || load.silences.isOverSince(healedMs),
    );
  } catch (error) {
    // Nothing can be told of what comes after it.
    violated(world, error);
    load.stop();
  }
  return { kind, atMs, lastedMs: elapsedMs(world) - atMs, silentMs: load.silences.close(window) };
}

/** Kept streams are there still; then each node lists none. */
async function judgeTheEnd(world: World): Promise<void> {
  const { cluster, load } = world;
  try {
    if (load.over.aborted) return;
    await cluster.ready(cluster.ids);
    const client = new RovingClient(load, world.random.seed);
    for (const stream of world.kept.splice(0)) {
      await checkKept(world, stream);
      await eraseEverywhere(world, client, stream.path);
    }
    client.leave();
    await cluster.settled(cluster.ids);
    for (const id of cluster.ids) {
      const { body } = await cluster.client(id).expect(200, 'GET', `/${BUCKET}/streams`);
      const { stream_count: left } = JSON.parse(body.toString('utf8')) as { stream_count: number };
      // A run with violations left streams where they were found.
      if (left > 0 && world.violations.length === 0)
        throw new Error(`node ${id} lists ${left} streams that were deleted`);
    }
  } catch (error) {
    violated(world, error);
  }
}
