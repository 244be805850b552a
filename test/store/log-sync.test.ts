// Syncs of the log by a thread of their own: when it is used, what it tells, and how it ends.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createRing } from '../../src/mailbox/ring.ts';
import { DiskFolder, LogSyncError, type SegmentFile } from '../../src/store/log-files.ts';
import { type LogSyncer, ThreadSyncer } from '../../src/store/log-sync.ts';
import { Segments } from '../../src/store/segments.ts';
import { TurnLog } from '../../src/store/turn-log.ts';
import { threadEntry } from '../../src/threads/entry.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';
import { MemoryFolder } from './memory-folder.ts';

const RING_BYTES = 65_536;
const PAGE_BYTES = 4096;
const LOG = 7n;
/** More syncs than the mean needs to follow. */
const MANY = 100;

interface Rig {
  readonly syncer: ThreadSyncer;
  readonly folder: DiskFolder;
  /** Each sync seems to take so long. */
  syncMs: number;
  threads: number;
}

function rigOf(t: TestContext): Rig {
  const path = temporaryFolder('sync');
  let clockMs = 0;
  const syncer = new ThreadSyncer({
    start: (words) => {
      rig.threads++;
      return new Worker(threadEntry('sync'), { workerData: { words, ring: createRing(RING_BYTES) }, execArgv: [] });
    },
    clockMs: () => (clockMs += rig.syncMs),
    failed: (error) => assert.fail(String(error)),
  });
  const rig: Rig = { syncer, folder: new DiskFolder(join(path, 'log')), syncMs: 0.2, threads: 0 };
  t.after(async () => {
    await syncer.close();
    removeFolder(path);
  });
  return rig;
}

/** A disk that takes long, and the thread is there. */
async function slow(rig: Rig, file: SegmentFile): Promise<void> {
  rig.syncMs = 20;
  await until('the thread takes a sync', () => !rig.syncer.sync(file, 'behind'));
  assert.equal(rig.syncer.ended('wait'), true);
}

test('a fast disk is waited for, without a thread; a slow one is not, until it is fast again', async (t) => {
  const rig = rigOf(t);
  const { syncer, folder } = rig;
  const file = folder.create('segment-1', PAGE_BYTES, LOG);
  t.after(() => file.close());
  for (let i = 0; i < MANY; i++) assert.equal(syncer.sync(file, 'behind'), true);
  assert.equal(rig.threads, 0);
  await slow(rig, file);
  assert.equal(syncer.sync(file, 'behind'), false);
  await until('it has ended', () => syncer.hasEnded);
  assert.deepEqual([syncer.ended('look'), syncer.hasEnded, syncer.ended('look')], [true, false, true]);
  assert.equal(syncer.sync(file, 'wait'), true, 'who has to wait does');
  rig.syncMs = 0.2;
  // The thread measures its syncs by the real disk, which may be slow.
  for (let i = 0; i < MANY; i++) syncer.sync(file, 'wait');
  assert.deepEqual([syncer.sync(file, 'behind'), rig.threads], [true, 1]);
});

test('a sync that fails in the thread is an error that names the file', async (t) => {
  const rig = rigOf(t);
  const file = rig.folder.create('segment-1', PAGE_BYTES, LOG);
  await slow(rig, file);
  file.close();
  assert.equal(rig.syncer.sync(file, 'behind'), false);
  const isNamed = (error: unknown): boolean =>
    error instanceof LogSyncError &&
    /^segment-1 of the log could not be synced: EBADF: bad file descriptor, fdatasync$/.test(error.message);
  assert.throws(() => rig.syncer.ended('wait'), isNamed);
  assert.throws(() => rig.syncer.ended('look'), isNamed, 'it is none that has ended well');
  assert.throws(() => rig.syncer.sync(file, 'wait'), isNamed);
});

test('a thread that cannot be made is told, and each sync is waited for', async (t) => {
  const rig = rigOf(t);
  const failures: unknown[] = [];
  const file = rig.folder.create('segment-1', PAGE_BYTES, LOG);
  t.after(() => file.close());
  let clockMs = 0;
  const syncer = new ThreadSyncer({
    start: () => new Worker(new URL('file:///nowhere.js')),
    clockMs: () => (clockMs += 20),
    failed: (error) => failures.push(error),
  });
  await until('it is told', () => syncer.sync(file, 'behind') && failures.length > 0);
  for (let i = 0; i < MANY; i++) assert.equal(syncer.sync(file, 'behind'), true);
  assert.equal(failures.length, 1);
  await syncer.close();
});

test('a record whose sync is under way is none that a checkpoint may name, and nothing is written behind it', async (t) => {
  const rig = rigOf(t);
  const segments = new Segments(rig.folder, LOG, { bytesMin: 64 * PAGE_BYTES, bytesMax: 64 * PAGE_BYTES }, rig.syncer);
  segments.reserve(0);
  const record = new Uint8Array(PAGE_BYTES);
  rig.syncMs = 20;
  await until('a sync is under way', () => {
    segments.append(record, 100, 'behind');
    return !segments.endSync('look');
  });
  const { lastSequence, place } = segments;
  assert.throws(() => segments.append(record, 100, 'behind'), /one record is synced at a time/);
  segments.seal();
  assert.deepEqual([segments.lastSequence, segments.place], [lastSequence, place], 'nothing is sealed');
  assert.equal(segments.endSync('wait'), true);
  assert.deepEqual([segments.lastSequence, segments.place.end], [lastSequence + 1, place.end + PAGE_BYTES]);
  segments.seal();
  assert.equal(segments.lastSequence, lastSequence + 2);
});

test('entries that a record replaces are needed until its sync has ended', () => {
  let hasEnded = false;
  const syncer: LogSyncer = {
    sync: (_file, how) => how === 'wait',
    ended: () => hasEnded,
    close: async () => undefined,
  };
  const segments = new Segments(
    new MemoryFolder(),
    LOG,
    { bytesMin: 64 * PAGE_BYTES, bytesMax: 64 * PAGE_BYTES },
    syncer,
  );
  segments.reserve(0);
  const turns = new TurnLog();
  turns.open(1, 0, 0);
  turns.attach(segments);
  const batch = (index: number, term: number): Parameters<TurnLog['append']>[0] => [
    { group: 1, entries: [{ index, term, kind: 0, data: new Uint8Array(10) }], hardState: undefined },
  ];
  turns.append(batch(1, 2));
  turns.append(batch(2, 2));
  turns.append(batch(1, 3), 'behind');
  assert.deepEqual([segments.oldestNeeded, segments.lastSequence], [1, 2], 'a checkpoint frees neither');
  hasEnded = true;
  assert.equal(segments.endSync('look'), true);
  assert.deepEqual([segments.oldestNeeded, segments.lastSequence], [3, 3]);
});
