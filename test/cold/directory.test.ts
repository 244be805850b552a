// A real server with the directory backend: bytes leave LMDB, are read back, survive a kill -9 in the middle, and go
// away when their streams do. The amount is bounded, not the time; what is awaited is asked for again and again.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ConnectionLost, RawClient, requestOnce } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { objectsIn } from '../support/cold-store.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const STREAMS = 8;
const BODY_BYTES = 64 * KIB;
/** Per stream: 16 MiB in all, many times what may be hot. */
const APPENDS = 32;
const HOT_BYTES_MAX = MIB;
const GROUPS = 2;
/** Rows and log of the hot bytes, several times over because LMDB frees pages two commits later. */
const DATABASE_BYTES_MAX = 10 * MIB;
const POLL_MS = 50;

const TOML = `
[storage.cold]
backend = "dir"
root = "test"
flush_interval = "200ms"
flush_size = "256 KiB"
flush_max_size = "512 KiB"
max_hot_size_per_group = "${HOT_BYTES_MAX / MIB} MiB"
gc_interval = "100ms"
gc_grace = "100ms"
compaction_gc_grace = "100ms"
sweep_interval = "500ms"
sweep_grace = "1s"
`;

/** Tells the stream and the append that it belongs to in every eight bytes. */
function bodyOf(stream: number, append: number): Buffer {
  const pattern = Buffer.alloc(8);
  pattern.writeUInt32LE(stream, 0);
  pattern.writeUInt32LE(append, 4);
  return Buffer.alloc(BODY_BYTES, pattern);
}

const nameOf = (stream: number): string => `/cold/stream-${stream}`;

async function metrics(server: TestServer): Promise<Record<string, number>> {
  return (await server.metrics()) as Record<string, number>;
}

interface Admission {
  readonly cold_write_admission: { readonly state: string };
  readonly raft_groups: readonly { readonly hot_bytes: number }[];
}

function objects(server: TestServer): string[] {
  return objectsIn(join(server.dataDir, 'cold'));
}

/** How much of the stream is there. */
async function appendsOf(client: RawClient, stream: number): Promise<number> {
  const head = await client.request('HEAD', nameOf(stream));
  assert.equal(head.status, 200);
  const tail = Number(head.headers.get('stream-next-offset'));
  assert.equal(tail % BODY_BYTES, 0, 'an append is there as a whole or not at all');
  return tail / BODY_BYTES;
}

/** Appends from what is there up to `count`; the number of acknowledged appends when the server dies, and refusals. */
async function fill(server: TestServer, stream: number, count: number, counts: { refused: number }): Promise<number> {
  const client = await RawClient.connect(server.port);
  let acknowledged = await appendsOf(client, stream);
  try {
    while (acknowledged < count) {
      const headers = { 'Content-Type': 'application/octet-stream' };
      const answer = await client.request('POST', nameOf(stream), headers, bodyOf(stream, acknowledged));
      if (answer.status === 204) {
        acknowledged++;
        continue;
      }
      assert.equal(answer.status, 503, answer.body.toString());
      assert.equal(answer.headers.get('retry-after'), '1');
      counts.refused++;
      await delay(POLL_MS);
    }
  } catch (error) {
    if (!(error instanceof ConnectionLost)) throw error;
  }
  client.destroy();
  return acknowledged;
}

async function readBack(server: TestServer, stream: number, count: number): Promise<void> {
  const client = await RawClient.connect(server.port);
  let offset = 0;
  while (offset < count * BODY_BYTES) {
    const answer = await client.request('GET', `${nameOf(stream)}?offset=${offset}`);
    assert.equal(answer.status, 200, answer.body.toString('latin1').slice(0, 200));
    assert(answer.body.length > 0, `stream ${stream} ends at ${offset}`);
    for (let at = 0; at < answer.body.length;) {
      const position = offset + at;
      const append = Math.floor(position / BODY_BYTES);
      const expected = bodyOf(stream, append).subarray(position % BODY_BYTES);
      const found = answer.body.subarray(at, at + expected.length);
      assert(found.equals(expected.subarray(0, found.length)), `stream ${stream} at ${position}`);
      at += found.length;
    }
    offset += answer.body.length;
    assert.equal(Number(answer.headers.get('stream-next-offset')), offset);
  }
  assert.equal(offset, count * BODY_BYTES);
  client.destroy();
}

test('16 MiB pass through 2 MiB of hot bytes, over a kill -9, are read back, and are gone with their streams', async () => {
  await withServer({ process: true, cores: 1, groups: GROUPS, toml: TOML }, async (server) => {
    const streams = Array.from({ length: STREAMS }, (_, stream) => stream);
    for (const stream of streams) assert.equal((await requestOnce(server.port, 'PUT', nameOf(stream))).status, 201);
    const counts = { refused: 0 };
    const filling = streams.map((stream) => fill(server, stream, APPENDS, counts));
    await until('a quarter is in the cold store', async () => {
      return ((await metrics(server))['cold_bytes'] as number) > (STREAMS * APPENDS * BODY_BYTES) / 4;
    });
    await server.kill();
    const acknowledged = await Promise.all(filling);
    await server.start();
    const client = await RawClient.connect(server.port);
    for (const stream of streams) {
      const found = await appendsOf(client, stream);
      assert(found >= (acknowledged[stream] as number), `stream ${stream} has ${found} of ${acknowledged[stream]}`);
    }
    client.destroy();
    await Promise.all(streams.map((stream) => fill(server, stream, APPENDS, counts)));
    await until('nothing is hot', async () => (await metrics(server))['cold_hot_bytes'] === 0);
    const after = await metrics(server);
    assert.equal(after['cold_bytes'], STREAMS * APPENDS * BODY_BYTES);
    // Bytes that wait for their commit count with the heads of their commands, about 100 bytes for each body.
    assert((after['cold_hot_group_bytes_high_watermark'] as number) <= 1.01 * HOT_BYTES_MAX);
    const databaseBytes = statSync(join(server.dataDir, 'shard-0', 'data.mdb')).size;
    process.stdout.write(
      `cold: ${databaseBytes / MIB} MiB of LMDB for 16 MiB, ${objects(server).length} objects, ${counts.refused} refusals\n`,
    );
    assert(databaseBytes < DATABASE_BYTES_MAX, `LMDB has ${databaseBytes} bytes`);
    await Promise.all(streams.map((stream) => readBack(server, stream, APPENDS)));
    await until('the store holds the objects that are known, orphans of the killed process are gone', async () => {
      return objects(server).length === (await metrics(server))['cold_objects'];
    });
    for (const stream of streams) assert.equal((await requestOnce(server.port, 'DELETE', nameOf(stream))).status, 204);
    await until('the store is empty', () => objects(server).length === 0);
    await until('nothing is left to collect', async () => (await metrics(server))['cold_objects'] === 0);
    assert.equal((await metrics(server))['cold_bytes'], 0);
  });
});

test('a store that is down for a while costs only writes, and everything recovers when it is back', async () => {
  await withServer({ cores: 1, groups: GROUPS, toml: TOML }, async (server) => {
    const streams = Array.from({ length: STREAMS }, (_, stream) => stream);
    for (const stream of streams) assert.equal((await requestOnce(server.port, 'PUT', nameOf(stream))).status, 201);
    const counts = { refused: 0 };
    const filling = Promise.all(streams.map((stream) => fill(server, stream, APPENDS, counts)));
    await until('an eighth is in the cold store', async () => {
      return ((await metrics(server))['cold_bytes'] as number) > (STREAMS * APPENDS * BODY_BYTES) / 8;
    });
    const folder = join(server.dataDir, 'cold');
    renameSync(folder, `${folder}.away`);
    writeFileSync(folder, 'in the way');
    await until('writes are refused', async () => {
      const { cold_write_admission: admission } = (await metrics(server)) as unknown as Admission;
      return admission.state === 'refusing' && counts.refused > 10;
    });
    const { raft_groups: groups } = (await metrics(server)) as unknown as Admission;
    for (const { hot_bytes: bytes } of groups) assert(bytes <= HOT_BYTES_MAX, `${bytes} hot bytes`);
    await server.logged(/the cold store fails/);
    // Hot bytes are served, and requests that bring no bytes are taken.
    const tail = await requestOnce(server.port, 'GET', `${nameOf(0)}?offset=now`);
    assert.equal(tail.status, 200);
    assert.equal((await requestOnce(server.port, 'PUT', '/cold/empty')).status, 201);
    rmSync(folder);
    renameSync(`${folder}.away`, folder);
    await filling;
    await until('nothing is hot', async () => (await metrics(server))['cold_hot_bytes'] === 0);
    await until('the admission is open', async () => {
      return ((await metrics(server)) as unknown as Admission).cold_write_admission.state === 'open';
    });
    await Promise.all(streams.map((stream) => readBack(server, stream, APPENDS)));
  });
});

test('an operator moves a stream to the cold store at once, and is told why not', async () => {
  const toml = TOML.replace('"200ms"', '"1h"');
  await withServer({ cores: 1, groups: GROUPS, toml }, async (server) => {
    const headers = { 'Content-Type': 'text/plain' };
    assert.equal((await requestOnce(server.port, 'PUT', '/b/s', headers, 'hello')).status, 201);
    const flush = (name: string): ReturnType<typeof requestOnce> =>
      requestOnce(server.adminPort, 'POST', `/__svc/flush-cold/${name}`);
    // The index that backups name, which is not that of the log.
    const indexes = (): Promise<number[]> =>
      Promise.all(
        Array.from({ length: GROUPS }, async (_, group) => {
          const answer = await requestOnce(server.adminPort, 'GET', `/__svc/backup/group/${group}`);
          return Number(answer.headers.get('x-svc-backup-commit-index'));
        }),
      );
    const before = await indexes();
    const flushed = await flush('b/s');
    assert.equal(flushed.status, 200);
    const { hot_start_offset: start, group_commit_index: index } = JSON.parse(flushed.body.toString()) as Record<
      string,
      number
    >;
    assert.equal(start, 5);
    const after = await indexes();
    const group = after.findIndex((one, i) => one > (before[i] as number));
    assert((index as number) > (before[group] as number) && (index as number) <= (after[group] as number), `${index}`);
    assert.equal(objects(server).length, 1);
    assert.equal((await flush('b/s')).status, 204);
    assert.equal((await flush('b/t')).status, 404);
    assert.equal((await requestOnce(server.port, 'GET', '/b/s?offset=-1')).body.toString(), 'hello');
    // A store that fails is told from a node that does.
    assert.equal((await requestOnce(server.port, 'POST', '/b/s', headers, 'more')).status, 204);
    const folder = join(server.dataDir, 'cold');
    renameSync(folder, `${folder}.away`);
    const { status, headers: told, body } = await flush('b/s');
    assert.deepEqual([status, told.get('millrace-error')], [502, 'COLD_WRITE_FAILED'], body.toString());
    assert.match(body.toString(), /^the cold store did not take the object from this node: .*cold/);
    renameSync(`${folder}.away`, folder);
  });
  await withServer({ cores: 1, groups: GROUPS }, async (server) => {
    const answer = await requestOnce(server.adminPort, 'POST', '/__svc/flush-cold/b/s');
    assert.deepEqual([answer.status, /cold store/.test(answer.body.toString())], [409, true]);
  });
});
