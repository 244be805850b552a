// The power fails at any moment: of what a real server wrote, its disk holds all that was
// synced and any part of the rest. Whatever that is, the server starts on it, has everything
// that was acknowledged and nothing that was never sent.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ShardStore } from '../../src/store/shard-store.ts';
import { State } from '../../src/stream/core/state.ts';
import { STORE_OPTIONS } from '../store/temporary.ts';
import { type Random, createRandom, seedFromEnvironment } from '../support/random.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { DiskImage } from './disk-image.ts';
import { readAll } from './look.ts';
import { hasStrace } from './strace.ts';
import { parseTrace } from './trace.ts';

const APPENDS = 160;
/** So many that segments are filled, freed by checkpoints and used again. */
const BODY_BYTES = 16 * 1024;
/** A store is opened on so many disks, and a server started on some. */
const STORES = 80;
const SERVERS = 8;
const PATH = '/power/s';
const TEXT = { 'Content-Type': 'text/plain' };
const CALLS = 'openat,rename,unlink,pwrite64,pwritev,write,writev,lseek,fdatasync,fsync,sendto,sendmsg';
const SHOWN_BYTES = 4 * 1024 * 1024;
/** 'HTTP/1.1 204' as strace -xx shows it. */
const ACKNOWLEDGED = [...Buffer.from('HTTP/1.1 204')].map((byte) => `\\x${byte.toString(16)}`).join('');

const bodyOf = (i: number): string => `${i};`.padEnd(BODY_BYTES - 1, 'x').concat('\n');

interface Run {
  readonly disk: DiskImage;
  /** Lines at which the acknowledgements began to leave, in order. */
  readonly acknowledgedAt: readonly number[];
  readonly lastLine: number;
}

/** Appends under strace on a directory that a server stopped on before. */
async function traced(t: TestContext, folder: string): Promise<Run> {
  const wrapper: string[] = [];
  const dataDir = join(folder, 'data');
  const server = new TestServer({ process: true, cores: 1, groups: 1, dataDir, wrapper });
  t.after(() => server.dispose());
  await server.start();
  const path = `${PATH}?offset=0`;
  await server.client.request('PUT', PATH, TEXT);
  assert.equal(await server.stop(), 0);
  cpSync(dataDir, join(folder, 'before'), { recursive: true });
  const file = join(folder, 'trace');
  wrapper.push(
    'strace',
    '-D',
    '-f',
    '-tt',
    '-yy',
    '-xx',
    '-qq',
    '-s',
    String(SHOWN_BYTES),
    '-e',
    `trace=${CALLS}`,
    '-o',
    file,
  );
  await server.start();
  const client = await RawClient.connect(server.port);
  for (let i = 0; i < APPENDS; i++) {
    const { status } = await client.request('POST', PATH, TEXT, bodyOf(i));
    assert.equal(status, 204);
  }
  await client.request('HEAD', path);
  client.destroy();
  await server.kill();
  const calls = parseTrace(readFileSync(file, 'utf8'));
  rmSync(file);
  const disk = new DiskImage(join(folder, 'before'), dataDir);
  const acknowledgedAt: number[] = [];
  for (const call of calls) {
    disk.take(call);
    if (call.args.includes(ACKNOWLEDGED) && !call.name.startsWith('p')) acknowledgedAt.push(call.start);
  }
  assert.equal(acknowledgedAt.length, APPENDS);
  return { disk, acknowledgedAt, lastLine: calls.at(-1)?.end ?? 0 };
}

/** Index of the last entry that a store finds; the log is whole, or this throws. */
async function lastIndexOf(dataDir: string): Promise<number> {
  const store = new ShardStore(join(dataDir, 'shard-0'), STORE_OPTIONS);
  try {
    const state = new State(0, store.tx, store.prefix(0));
    const log = store.openLog(0, state.appliedIndex, state.appliedTerm);
    store.load();
    return log.lastIndex();
  } finally {
    await store.close();
  }
}

/** How many appends a server serves that starts there. */
async function servedBy(t: TestContext, dataDir: string): Promise<number> {
  const server = new TestServer({ cores: 1, groups: 1, dataDir });
  t.after(() => server.dispose());
  await server.start();
  const client = await RawClient.connect(server.port);
  const { content = '' } = (await readAll(client, PATH, false)) ?? {};
  assert.equal((await client.request('POST', PATH, TEXT, 'later')).status, 204);
  client.destroy();
  await server.dispose();
  const count = content.length / BODY_BYTES;
  const sent = Array.from({ length: count }, (_, i) => bodyOf(i));
  assert(content === sent.join(''), 'nothing is served that was not sent');
  return count;
}

/** Most at a call that reaches the disk, some anywhere. */
function momentOf({ disk, acknowledgedAt, lastLine }: Run, random: Random): number {
  const from = disk.lines.findIndex((line) => line > (acknowledgedAt[0] ?? 0));
  if (random.chance(0.1)) return random.int(acknowledgedAt[0] ?? 0, lastLine);
  return (disk.lines[random.int(from, disk.lines.length - 1)] ?? lastLine) + random.int(0, 1);
}

test('whatever a power loss leaves of a log and its checkpoints, a server starts on it with all that was acknowledged', async (t) => {
  if (!(await hasStrace(t))) return;
  const random = createRandom(seedFromEnvironment());
  process.stdout.write(`power loss: SEED=${random.seed}\n`);
  const folder = temporaryFolder('power');
  t.after(() => removeFolder(folder));
  const run = await traced(t, folder);
  const image = (line: number): string => {
    const target = join(folder, `at-${line}`);
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target);
    run.disk.leave(target, line, random);
    return target;
  };
  const last = await lastIndexOf(image(run.lastLine + 1));
  for (let i = 0; i < STORES; i++) {
    const line = momentOf(run, random);
    const acknowledged = run.acknowledgedAt.filter((at) => at < line).length;
    const where = `SEED=${random.seed} disk ${i}, line ${line}, ${acknowledged} acknowledged`;
    const target = image(line);
    const found = (await lastIndexOf(target)) - (last - APPENDS);
    assert(found >= acknowledged && found <= acknowledged + 1, `${where}: ${found} are in the log`);
    if (i % (STORES / SERVERS) === 0) {
      const served = await servedBy(t, target);
      assert(served >= acknowledged && served <= acknowledged + 1, `${where}: ${served} are served`);
    }
    rmSync(target, { recursive: true });
  }
});
