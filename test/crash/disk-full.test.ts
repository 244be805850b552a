// A full disk: appends are refused with a sentence and a Retry-After, the log says so, nothing acknowledged is lost,
// and the server works again as soon as there is space, without a restart and after one.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConnectionLost, RawClient, type RawResponse } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { readAll } from './look.ts';
import { hasStrace, straced } from './strace.ts';
import { mountSmallDisk, type SmallDisk } from './small-disk.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const DISK_BYTES = 64 * 1024 * 1024;
/** Deleted one after the other to make space. */
const FILLERS = ['filler-1', 'filler-2'] as const;
const FILLER_BYTES = 12 * 1024 * 1024;
const APPEND_BYTES = 32 * 1024;
const STREAMS = 8;
/** More than the disk can hold: the disk must fill before. */
const APPENDS_MAX = (2 * DISK_BYTES) / APPEND_BYTES;
/** Refusals in a row that count as full: one may only be a busy moment. */
const REFUSALS = 20;

interface Written {
  readonly path: string;
  /** The acknowledged appends in order, with the offset after each. */
  readonly acknowledged: { readonly text: string; readonly end: number }[];
  /** Refused with an open outcome: may be there or not. */
  readonly refused: Set<string>;
}

let counter = 0;

async function append(client: RawClient, stream: Written): Promise<RawResponse> {
  const text = `${String(counter++).padStart(8, '0')}:${'d'.repeat(APPEND_BYTES)}\n`;
  const response = await client.request('POST', stream.path, { 'Content-Type': 'text/plain' }, text);
  if (response.status === 204) {
    stream.acknowledged.push({ text, end: Number(response.headers.get('stream-next-offset')) });
    return response;
  }
  stream.refused.add(text);
  const detail = `${response.status} ${response.body.toString('utf8')}`;
  assert(response.status === 503 || response.status === 507, `a full disk answers 503 or 507, not ${detail}`);
  assert.match(response.headers.get('retry-after') ?? '', /^\d+$/, `Retry-After of ${detail}`);
  assert.match(response.body.toString('utf8'), /\w+ \w+/, 'the refusal needs a sentence');
  return response;
}

async function fillUp(client: RawClient, streams: readonly Written[]): Promise<RawResponse> {
  let refusedInARow = 0;
  for (let i = 0; i < APPENDS_MAX; i++) {
    const response = await append(client, streams[i % STREAMS] as Written);
    refusedInARow = response.status === 204 ? 0 : refusedInARow + 1;
    if (refusedInARow >= REFUSALS) return response;
  }
  assert.fail(`${APPENDS_MAX} appends of ${APPEND_BYTES} bytes fit on a disk of ${DISK_BYTES} bytes`);
}

async function checkAll(client: RawClient, streams: readonly Written[]): Promise<number> {
  let total = 0;
  for (const stream of streams) {
    const state = await readAll(client, `/v1/stream${stream.path}`, false);
    const content = state?.content ?? '';
    for (const { text, end } of stream.acknowledged) {
      assert.equal(content.slice(end - text.length, end), text, `${stream.path}: the append that ends at ${end}`);
      total++;
    }
    const known = new Set(stream.acknowledged.map((entry) => entry.text));
    const lines = content
      .split('\n')
      .slice(0, -1)
      .map((line) => `${line}\n`);
    assert.equal(new Set(lines).size, lines.length, `${stream.path}: an append is there twice`);
    for (const line of lines)
      assert(known.has(line) || stream.refused.has(line), `${stream.path}: stranger ${line.slice(0, 20)}`);
  }
  return total;
}

async function appendUntilAccepted(client: RawClient, stream: Written): Promise<number> {
  const startedAtMs = performance.now();
  while ((await append(client, stream)).status !== 204) {
    assert(performance.now() - startedAtMs < PATIENCE_MS, 'appends are still refused although there is space');
  }
  return performance.now() - startedAtMs;
}

async function scenario(server: TestServer, disk: SmallDisk): Promise<void> {
  let client = await RawClient.connect(server.port);
  const streams: Written[] = Array.from({ length: STREAMS }, (_, i) => ({
    path: `/full/s${i}`,
    acknowledged: [],
    refused: new Set(),
  }));
  for (const { path } of streams) {
    assert.equal((await client.request('PUT', path, { 'Content-Type': 'text/plain' })).status, 201);
  }
  const logBefore = server.log().length;
  const refusal = await fillUp(client, streams);
  const before = await checkAll(client, streams);
  const logLine = await server.logged(/"(warn|error)".*(full|space|ENOSPC)/i, logBefore);
  const warnings = server
    .log()
    .slice(logBefore)
    .split('\n')
    .filter((line) => /"(warn|error|fatal)"/.test(line));
  assert(warnings.length < REFUSALS, `the log must not have a line for every refusal: ${warnings.length} lines`);
  const freeWhenFull = disk.freeBytes();
  // A checkpoint makes room for a few more appends now and then.
  await until('the metrics tell why writes are refused', async () => {
    await append(client, streams[0] as Written);
    const metrics = JSON.parse((await client.request('GET', '/__svc/metrics')).body.toString('utf8')) as object;
    return 'disk_full' in metrics && metrics.disk_full === true;
  });

  disk.remove(FILLERS[0]);
  const recoveryMs = await appendUntilAccepted(client, streams[0] as Written);
  for (const stream of streams)
    assert.equal((await append(client, stream)).status, 204, 'with space, appends work again');
  await checkAll(client, streams);

  // Full again, and now the process dies as well. Without a byte to spare it need not lead its groups, but it must wait
  // for space instead of giving up.
  await fillUp(client, streams);
  await server.kill();
  client.destroy();
  const restartMs = await server.start('health');
  disk.remove(FILLERS[1]);
  assert.equal(await server.waitUntil('ready'), undefined, 'the server ended on a full disk');
  client = await RawClient.connect(server.port);
  const after = await checkAll(client, streams);
  await appendUntilAccepted(client, streams[0] as Written);
  for (const stream of streams)
    assert.equal((await append(client, stream)).status, 204, 'appends work after the restart');
  await checkAll(client, streams);
  client.destroy();
  process.stdout.write(
    `disk full: ${before} appends of ${APPEND_BYTES} bytes fitted, then ${refusal.status} "${refusal.body.toString('utf8').trim()}" ` +
      `with ${freeWhenFull} bytes free; worked again ${Math.round(recoveryMs)} ms after space was freed; after filling it again, SIGKILL ` +
      `and a restart on the full disk (${Math.round(restartMs)} ms) all ${after} acknowledged appends are there; log: ` +
      `${logLine}\n`,
  );
}

/** On a separate volume only deleted streams can free space, and the files of the store never shrink. */
async function deleteForRoom(server: TestServer): Promise<void> {
  const client = await RawClient.connect(server.port);
  const streams: Written[] = Array.from({ length: STREAMS }, (_, i) => ({
    path: `/room/s${i}`,
    acknowledged: [],
    refused: new Set(),
  }));
  for (const { path } of streams) await client.request('PUT', path, { 'Content-Type': 'text/plain' });
  await fillUp(client, streams);
  const [kept, ...deleted] = streams as [Written, ...Written[]];
  for (const { path } of deleted) {
    const response = await client.request('DELETE', path);
    assert.equal(response.status, 204, `${path}: deleting must work when nothing else does`);
  }
  const waitedMs = await appendUntilAccepted(client, kept);
  for (let i = 0; i < 20; i++) assert.equal((await append(client, kept)).status, 204, 'deleted streams gave room');
  await checkAll(client, [kept]);
  client.destroy();
  process.stdout.write(
    `disk full: ${deleted.length} streams deleted, appends accepted ${Math.round(waitedMs)} ms later\n`,
  );
}

test('deleting streams gives a full disk room again', async (t) => {
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  try {
    await withServer({ process: true, cores: 1, dataDir: disk.path, wrapper: disk.enter }, (server) =>
      deleteForRoom(server),
    );
  } finally {
    await disk.dispose();
  }
});

test('a full disk refuses, loses nothing, and recovers without a restart', async (t) => {
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  try {
    for (const name of FILLERS) disk.fill(name, FILLER_BYTES);
    await withServer({ process: true, cores: 1, dataDir: disk.path, wrapper: disk.enter }, (server) =>
      scenario(server, disk),
    );
  } finally {
    await disk.dispose();
  }
});

/** More calls than a thread makes while it starts, and as many as a second of load makes. */
const WRITES_BEFORE = 40;
const BODY_BYTES = 100_000;

test('what LMDB says on stderr about a write that failed spoils no line of the log', async (t) => {
  if (!(await hasStrace(t))) return;
  const folder = temporaryFolder('refused');
  const dataDir = join(folder, 'data');
  // Only LMDB writes there: in its segments the log has its space beforehand.
  const file = join(dataDir, 'shard-0', 'data.mdb');
  const calls = 'pwrite64,pwritev,writev';
  const inject = ['-e', `trace=${calls}`, '-e', `inject=${calls}:error=EFBIG:when=${WRITES_BEFORE}+`];
  const wrapper = straced(join(folder, 'trace'), '-P', file, ...inject);
  const server = new TestServer({ process: true, cores: 1, groups: 1, dataDir, wrapper });
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  const client = await RawClient.connect(server.port);
  const put = await client.request('PUT', '/full/s', { 'Content-Type': 'text/plain' });
  assert.equal(put.status, 201);
  const body = 'd'.repeat(BODY_BYTES);
  const writing = async (): Promise<void> => {
    for (;;) await client.request('POST', '/full/s', { 'Content-Type': 'text/plain' }, body);
  };
  await assert.rejects(writing(), ConnectionLost);
  await server.exited;
  const lines = server.log().split('\n');
  for (const line of lines.filter((one) => one.includes('"component"'))) JSON.parse(line);
  assert(
    lines.some((line) => /^Write error: [^{]*$/.test(line)),
    server.log(),
  );
});
