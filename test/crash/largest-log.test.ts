// A node with 512 MiB starts from any log that it could have written: checkpoints hang until each shard takes no more,
// the node is killed, and its next start applies all of the log.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { changedBytesMax } from '../../src/shard/backlog.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';
import { hasStrace, straced } from './strace.ts';

const MIB = 1024 * 1024;
const NODE_BYTES = 512 * MIB;
/** Two share the most that a node may have changed. */
const SHARDS = 2;
const GROUPS = 4;
const STREAMS = 24;
const TYPE = { 'content-type': 'application/octet-stream' };
/** Larger ones come in pieces, which wait in front of the log. */
const BODY = Buffer.alloc(240 * 1024, 'x');
/** Appends to a shard that may wait for an answer: more than it lets wait. */
const WAITING_MAX = 200;
/** From so many on, one follows another when the shard has answered something else: its mailbox has 16 MiB. */
const IN_MAILBOX = 32;

interface Stream {
  readonly name: string;
  acknowledged: number;
}

test('a node starts within 512 MiB from the largest log that its bounds let it write', async (t) => {
  if (!(await hasStrace(t))) return;
  const folder = temporaryFolder('largest-log');
  const dataDir = join(folder, 'data');
  const shards = Array.from({ length: SHARDS }, (_, shard) => join(dataDir, `shard-${shard}`));
  // Longer than the writing takes.
  const hanging = ['-e', 'trace=fdatasync', '-e', 'inject=fdatasync:delay_exit=600000000:when=12+'];
  const paths = shards.flatMap((shard) => ['-P', join(shard, 'data.mdb')]);
  const options = { process: true, cores: SHARDS, groups: GROUPS, dataDir };
  const full = new TestServer({ ...options, wrapper: straced(join(folder, 'trace'), ...paths, ...hanging) });
  const next = new TestServer(options);
  t.after(async () => {
    await full.dispose();
    await next.dispose();
    removeFolder(folder);
  });
  await full.start();
  const streams = Array.from({ length: STREAMS }, (_, i) => ({ name: `/log/s${i}`, acknowledged: 0 }));
  for (const { name } of streams) await full.client.create(name, TYPE);
  const byShard = shards.map((_, shard) => streams.filter(({ name }) => shardOf(name) === shard));
  await hang(full, byShard);
  for (const some of byShard) await fill(full, some);
  const strace = Number(/^TracerPid:\s+(\d+)/m.exec(readFileSync(`/proc/${full.pid}/status`, 'utf8'))?.[1]);
  const killed = full.kill();
  // strace would keep the threads whose calls it delays.
  process.kill(strace, 'SIGKILL');
  await killed;

  const logBytes = shards.reduce((sum, shard) => sum + bytesIn(join(shard, 'log')), 0);
  const boundBytes = SHARDS * changedBytesMax(SHARDS);
  assert(logBytes > 1.3 * boundBytes, `the log has ${logBytes / MIB} MiB`);
  await next.start();
  for (const { name, acknowledged } of streams) {
    const head = await next.client.expect(200, 'HEAD', name);
    const bytes = Number(head.headers.get('stream-next-offset'));
    assert(bytes >= BODY.length * acknowledged, `${name}: ${acknowledged} acknowledged, ${bytes} bytes are there`);
  }
  const { peakBytes } = next.memory();
  t.diagnostic(`log of ${Math.round(logBytes / MIB)} MiB, started with ${Math.round(peakBytes / MIB)} MiB`);
  assert(peakBytes < NODE_BYTES, `the start took ${peakBytes / MIB} MiB, pages of its files included`);
});

/** Small appends until a checkpoint of each shard hangs: one that ended during the filling would give back log. */
async function hang(server: TestServer, byShard: readonly (readonly Stream[])[]): Promise<void> {
  const first = byShard.flatMap((streams) => streams.slice(0, 1));
  const hangs = (shard: number): boolean =>
    new RegExp(`shard-${shard}/.*a checkpoint is not on it yet`).test(server.log());
  await until('checkpoints of all shards hang', async () => {
    await Promise.all(first.map(({ name }) => server.client.expect(204, 'POST', name, TYPE, 'x')));
    return byShard.every((_, shard) => hangs(shard));
  });
}

/** Appends to streams of one shard until it takes no more. What is in the log when checkpoints hang has no answer. */
async function fill(server: TestServer, streams: readonly Stream[]): Promise<void> {
  const waiting = new Set<Promise<void>>();
  const before = await slowRefusals(server);
  let isFull = false;
  const append = async (stream: Stream): Promise<void> => {
    const client = await RawClient.connect(server.port);
    const { status } = await client.request('POST', stream.name, TYPE, BODY);
    client.destroy();
    if (status === 204) stream.acknowledged++;
    // The mailbox of the shard may have been full.
    else isFull ||= (await slowRefusals(server)) > before;
  };
  for (let i = 0; !isFull; i++) {
    const stream = streams[i % streams.length] as Stream;
    const one = append(stream)
      .catch(() => undefined)
      .finally(() => waiting.delete(one));
    waiting.add(one);
    if (waiting.size === WAITING_MAX) await Promise.race(waiting);
    else if (waiting.size >= IN_MAILBOX) await Promise.race([...waiting, server.client.request('HEAD', stream.name)]);
  }
}

async function slowRefusals(server: TestServer): Promise<number> {
  return Number((await server.metrics())['slow_disk_refusals']);
}

const shardOf = (name: string): number => fnv1a64mod('log', name.slice('/log/'.length), GROUPS) % SHARDS;
const bytesIn = (log: string): number =>
  readdirSync(log).reduce((sum, name) => sum + statSync(join(log, name)).size, 0);
