// A restored cluster deletes its own objects, and those of its source only when it was told to take that one's place.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DirectoryStore } from '../support/cold-store.ts';
import { clusterFileOf, ctl } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';

const GROUPS = 2;
const STREAMS = 6;
const TEXT = { 'content-type': 'text/plain' };
/** Everything that deletes does so soon. */
const TIMES = `
flush_interval = "100ms"
gc_grace = "0s"
compaction_enabled = false
sweep_interval = "200ms"
sweep_grace = "500ms"
`;

/** For the collector; with the other one only a purge deletes, so it is known what it counts. */
const SOON = 'gc_interval = "100ms"\n';
const NEVER = 'gc_interval = "1h"\n';

const optionsFor = (store: DirectoryStore, collects: string): { cores: number; groups: number; toml: string } => ({
  cores: 1,
  groups: GROUPS,
  toml: store.toml + TIMES + collects,
});

async function ok(answer: Promise<RawResponse>, status: number): Promise<string> {
  const { status: got, body } = await answer;
  assert.equal(got, status, body.toString());
  return body.toString();
}

/** Fills streams of a bucket and waits until their bytes are in the store. */
async function fill(server: TestServer, bucket: string, streams: number): Promise<void> {
  for (let i = 0; i < streams; i++) {
    await ok(requestOnce(server.port, 'PUT', `/${bucket}/s${i}`, TEXT, Buffer.from(`${bucket} ${i}`)), 201);
  }
  await until('nothing is hot', async () => (await metric(server, 'cold_hot_bytes')) === 0);
}

async function metric(server: TestServer, name: string): Promise<number> {
  const metrics = (await server.metrics()) as Record<string, number>;
  assert.equal(typeof metrics[name], 'number', name);
  return metrics[name] as number;
}

async function reclaimedByPurge(server: TestServer, bucket: string): Promise<number> {
  const report = JSON.parse(await ok(requestOnce(server.adminPort, 'DELETE', `/__svc/purge/${bucket}`), 200)) as Record<
    string,
    number
  >;
  return report['cold_gc_entries_reclaimed'] as number;
}

const keysOf = async (store: DirectoryStore, bucket: string): Promise<string[]> =>
  (await store.keys()).filter((key) => key.includes(`/${bucket}/`)).sort();

async function backUp(server: TestServer, location: string): Promise<void> {
  const created = await ctl(['backup-create', '--config', clusterFileOf(server), '--location', location]);
  assert.equal(created.code, 0, created.stderr);
}

/** Another cluster over the same store, with what the backup has. */
function withRestored(
  store: DirectoryStore,
  location: string,
  flags: readonly string[],
  collects: string,
  work: (copy: TestServer) => Promise<void>,
): Promise<void> {
  return withServer(optionsFor(store, collects), async (copy) => {
    const restored = await ctl(['restore', '--config', clusterFileOf(copy), '--location', location, ...flags]);
    assert.equal(restored.code, 0, restored.stderr);
    await work(copy);
  });
}

/** A source that wrote on after its backup, and is gone. */
async function withBackup(
  work: (store: DirectoryStore, folder: string, location: string) => Promise<void>,
): Promise<void> {
  const store = new DirectoryStore();
  const folder = temporaryFolder('adopt');
  const location = join(folder, 'backup');
  try {
    await withServer(optionsFor(store, SOON), async (source) => {
      for (const bucket of ['doomed', 'deleted', 'spared']) await fill(source, bucket, STREAMS);
      await backUp(source, location);
      await fill(source, 'later', STREAMS);
    });
    for (const bucket of ['doomed', 'deleted', 'spared', 'later'])
      assert((await keysOf(store, bucket)).length > 0, bucket);
    await work(store, folder, location);
  } finally {
    removeFolder(folder);
    await store.stop();
  }
}

async function checkSpared(copy: TestServer): Promise<void> {
  for (let i = 0; i < STREAMS; i++) {
    assert.equal(await ok(requestOnce(copy.port, 'GET', `/spared/s${i}?offset=-1`), 200), `spared ${i}`);
  }
}

test('objects of the source stay, and a purge does not count them', () =>
  withBackup(async (store, _folder, location) => {
    const before = await store.keys();
    const isAsBefore = async (): Promise<void> => assert.deepEqual((await store.keys()).sort(), before.sort());
    await withRestored(store, location, [], NEVER, async (copy) => {
      assert.equal(await reclaimedByPurge(copy, 'doomed'), 0);
      await fill(copy, 'own', STREAMS);
      const own = await keysOf(store, 'own');
      assert(own.length > 0);
      assert.equal(await reclaimedByPurge(copy, 'own'), own.length);
      await isAsBefore();
    });
    await withRestored(store, location, [], SOON, async (copy) => {
      for (let i = 0; i < STREAMS; i++) await ok(requestOnce(copy.port, 'DELETE', `/deleted/s${i}`), 204);
      await fill(copy, 'own', STREAMS);
      for (let i = 0; i < STREAMS; i++) await ok(requestOnce(copy.port, 'DELETE', `/own/s${i}`), 204);
      assert.equal(await reclaimedByPurge(copy, 'doomed'), 0);
      await until('the queue is empty', async () => (await metric(copy, 'cold_gc_queue_length')) === 0);
      await isAsBefore();
      await checkSpared(copy);
    });
  }));

test('adopted, they go with what they held, and with the source what nothing refers to', () =>
  withBackup(async (store, folder, location) => {
    const flags = ['--adopt-cold-objects'];
    const second = join(folder, 'second');
    await withRestored(store, location, flags, SOON, async (copy) => {
      const spared = await keysOf(store, 'spared');
      await reclaimedByPurge(copy, 'doomed');
      for (let i = 0; i < STREAMS; i++) await ok(requestOnce(copy.port, 'DELETE', `/deleted/s${i}`), 204);
      const gone = ['doomed', 'deleted', 'later'];
      const left = async (): Promise<string[]> =>
        (await Promise.all(gone.map((bucket) => keysOf(store, bucket)))).flat();
      await until('no object is left', async () => (await left()).length === 0);
      assert.deepEqual(await keysOf(store, 'spared'), spared);
      await checkSpared(copy);
      await backUp(copy, second);
    });
    // The copy owned them, so its replacement does too.
    await withRestored(store, second, flags, NEVER, async (third) => {
      await checkSpared(third);
      const { length } = await keysOf(store, 'spared');
      assert.equal(await reclaimedByPurge(third, 'spared'), length);
      assert.deepEqual(await keysOf(store, 'spared'), []);
    });
  }));

test('a snapshot that does not say whose its objects are cannot be adopted; nothing is left of the attempt', async () => {
  const document = readFileSync(join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1', 'group-0000.snapshot'));
  await withServer({ cores: 1, groups: 1 }, async ({ adminPort }) => {
    const path = '/__svc/backup/group/0/import';
    const post = (query: string, status: number): Promise<string> =>
      ok(requestOnce(adminPort, 'POST', path + query, {}, document), status);
    assert.match(await post('?adopt=yes', 400), /^adopt must be true or false\n$/);
    assert.match(await post('?adopt=true', 400), /does not say which objects/);
    await post('?adopt=false', 200);
  });
});
