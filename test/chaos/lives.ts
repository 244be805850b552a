// The lives of streams under chaos. Each is created, written by several clients, followed by live readers, closed, read
// back on every node and held against its history, perhaps forked, and then deleted or kept until the end. A closed
// stream has a length that no late write can change, so it can be judged while faults go on, and its history forgotten.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { follow, followEvents } from '../cluster/follow.ts';
import {
  type Shown,
  type StreamHistory,
  checkStream,
  lineOf,
  newAppend,
  newStream,
  typeOf,
} from '../cluster/history.ts';
import { RETRY_MS, RovingClient, appendOnce, pause, produce } from '../cluster/load.ts';
import { type Random, createRandom } from '../support/random.ts';
import { catchUp, eraseEverywhere, fork, insist, keepUntilTheEnd, readWhole, seesOwn } from './looks.ts';
import { type World, violated } from './world.ts';

export const BUCKET = 'chaos';
/** Appends of one life, by all its writers. */
const APPENDS = { low: 60, high: 400 } as const;
const APPENDS_BRISK = { low: 20, high: 60 } as const;
/** A life ends early when it has written so much. */
const BYTES_MAX = 48 * 1024 * 1024;
const LARGE_BYTES = { low: 1_000_000, high: 30_000_000 } as const;
const CATCH_UPS_MAX = 6;
/** Streams that are closed and not judged yet, because a node is away. */
const UNJUDGED_MAX = 60;
/** Between two appends of one writer: the machine has other work. */
const PACE_MS = 40;

export interface Pace {
  readonly isBrisk: boolean;
  /** One append of so many is large. */
  readonly largeOneIn: number;
}

interface Life {
  readonly world: World;
  readonly pace: Pace;
  readonly stream: StreamHistory;
  readonly random: Random;
  /** Appends still to be sent. */
  left: number;
  bytesLeft: number;
}

/** Streams of one group, one after the other, until the run ends; they are judged aside. Resolves when all are. */
export async function runSlot(world: World, slot: number, pace: Pace): Promise<void> {
  const unjudged = new Set<Promise<void>>();
  const random = createRandom(world.random.seed + 7919 * (slot + 1));
  const groups = world.cluster.groupIds.length;
  for (let generation = 0; !world.isEnding; generation++) {
    const name = nameInGroup(`s${slot}-${generation}`, slot % groups, groups);
    const stream = newStream(BUCKET, name, random.chance(0.4));
    const judged = await guarded(world, () => live(world, stream, random, pace, slot));
    if (judged === undefined) continue;
    const end = guarded(world, judged).then(() => {
      world.alive.delete(name);
      unjudged.delete(end);
    });
    unjudged.add(end);
    while (unjudged.size >= UNJUDGED_MAX / groups && !world.load.over.aborted) await pause(RETRY_MS);
  }
  await Promise.all(unjudged);
}

async function guarded<T>(world: World, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    // An aborted run leaves everything half done.
    if (!world.load.over.aborted) violated(world, error);
    return undefined;
  }
}

function nameInGroup(prefix: string, group: number, groups: number): string {
  for (let i = 0; ; i++) {
    const name = i === 0 ? prefix : `${prefix}.${i}`;
    if (fnv1a64mod(BUCKET, name, groups) === group) return name;
  }
}

/** Until the stream is closed; the result judges it. */
async function live(
  world: World,
  stream: StreamHistory,
  random: Random,
  pace: Pace,
  slot: number,
): Promise<(() => Promise<void>) | undefined> {
  const { load, cluster, counts } = world;
  const roaming = new RovingClient(load, random.int(0, 2 ** 30));
  const { status } = await insist(world, roaming, { method: 'PUT', path: stream.path, headers: typeOf(stream) });
  if (load.over.aborted) return undefined;
  assert([200, 201].includes(status), `PUT ${stream.path}: ${status}`);
  counts.created++;
  world.alive.set(stream.name, 'its writers');
  const { low, high } = pace.isBrisk ? APPENDS_BRISK : APPENDS;
  const life: Life = { world, pace, stream, random, left: random.int(low, high), bytesLeft: BYTES_MAX };
  const seed = random.int(0, 2 ** 30);
  const readers: Promise<Shown>[] = [follow(load, stream, seed), followEvents(load, stream, seed + 1)];
  const pinned = cluster.ids[slot % cluster.ids.length] as number;
  const writers = Promise.all([
    write(life, 0, new RovingClient(load, seed + 2, [pinned]), random.chance(0.3)),
    write(life, 1, new RovingClient(load, seed + 3), true),
    write(life, 2, new RovingClient(load, seed + 4), false),
  ]);
  const looks = catchUps(life, seed + 5);
  await writers;
  world.alive.set(stream.name, 'being closed');
  const end = await close(world, roaming, stream);
  if (load.over.aborted) return undefined;
  return async () => {
    world.alive.set(stream.name, 'every node to show it');
    const shown = [...(await looks)];
    const content = await readWhole(world, stream, end);
    world.alive.set(stream.name, 'its live readers');
    checkStream(stream, content, counts.appends);
    // They end when they are told that the stream is closed.
    shown.push(...(await Promise.all(readers)));
    if (load.over.aborted) return;
    for (const reader of shown) reader.check(stream, content, counts.appends);
    for (const reader of shown.slice(-readers.length)) {
      assert.equal(reader.offset, content.length, `${stream.name}: ${reader.how} saw all of a closed stream`);
    }
    counts.readers += shown.length;
    world.alive.set(stream.name, 'its fork, or its deletion');
    if (random.chance(0.3)) await fork(world, roaming, { stream, content, random });
    if (random.chance(0.8)) await eraseEverywhere(world, roaming, stream.path);
    else await keepUntilTheEnd(world, roaming, { path: stream.path, isJson: stream.isJson, content });
    roaming.leave();
  };
}

/** One writer of a life: until enough was written, or the run ends. */
async function write(life: Life, id: number, client: RovingClient, asProducer: boolean): Promise<void> {
  const { world, stream, random } = life;
  const { load, counts } = world;
  for (let number = 0; life.left > 0 && life.bytesLeft > 0 && !world.isEnding && !load.over.aborted; number++) {
    life.left--;
    const append = newAppend(stream, id, number, padBytes(life));
    if (append.padBytes >= LARGE_BYTES.low) counts.largeBodies++;
    life.bytesLeft -= append.padBytes;
    if (asProducer) await produce(load, client, stream, append);
    else await appendOnce(client, stream, append);
    if (append.outcome === 'acknowledged') {
      load.silences.acknowledged(stream);
      counts.acknowledgedBytes += lineOf(stream, { ...append, padBytes: 0 }).length + append.padBytes;
      if (random.chance(0.05)) await seesOwn(world, client, stream, append.end);
    }
    await pause(random.int(0, PACE_MS));
  }
  client.leave();
}

function padBytes({ random, pace }: Life): number {
  if (random.chance(1 / pace.largeOneIn)) return random.int(LARGE_BYTES.low, LARGE_BYTES.high);
  return random.chance(0.05) ? random.int(3000, 60_000) : random.int(0, 300);
}

/** Now and then a reader takes all that some node has. */
async function catchUps({ world, stream, random }: Life, seed: number): Promise<Shown[]> {
  const shown: Shown[] = [];
  const client = new RovingClient(world.load, seed);
  for (let i = 0; i < CATCH_UPS_MAX && !world.isEnding && !world.load.over.aborted; i++) {
    await pause(random.int(200, 3000));
    const one = await catchUp(world, client, stream);
    if (one === undefined) break;
    shown.push(one);
    client.leave();
  }
  return shown;
}

/** The length that the stream then has for good. */
async function close(world: World, client: RovingClient, { path }: StreamHistory): Promise<number> {
  const answer = await insist(world, client, { method: 'POST', path, headers: { 'Stream-Closed': 'true' } });
  if (world.load.over.aborted) return -1;
  const text = `closing ${path}: ${answer.status} ${answer.body.toString('utf8')}`;
  // By an attempt whose answer was lost.
  const isClosed = answer.status === 409 && answer.headers.get('millrace-error') === 'STREAM_CLOSED';
  assert(answer.status === 204 || isClosed, text);
  world.counts.closed++;
  return Number(answer.headers.get('stream-next-offset'));
}
