// Segment files: made beforehand, used again, and never in the way when there is no room for another one.
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DiskFolder, LogSyncError } from '../../src/store/log-files.ts';
import { LOG_PAGE_BYTES, RECORD_HEAD, freshBytes, pagesFor } from '../../src/store/log-record.ts';
import { type Covered, scanLog } from '../../src/store/log-scan.ts';
import { Segments } from '../../src/store/segments.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { MemoryFolder, NO_ROOM } from './memory-folder.ts';

const LOG = 77n;
const PAGES = { bytesMin: 3 * LOG_PAGE_BYTES, bytesMax: 9 * LOG_PAGE_BYTES };
/** A record of a page, and the one that says where the log goes on. */
/** The whole log, in one segment. */
const ALL: Covered = {
  ...{ log: LOG, oldest: 1, last: 0 },
  place: { segments: [{ segment: 1, bytes: 3 * LOG_PAGE_BYTES }], end: 0 },
};
const ONE_EACH = { bytesMin: 2 * LOG_PAGE_BYTES, bytesMax: 2 * LOG_PAGE_BYTES };
const RECORD_START = RECORD_HEAD.size;
/** Data that fills a page. */
const PAGE_DATA = 3900;

function append(segments: Segments, dataBytes = PAGE_DATA): ReturnType<Segments['append']> {
  const record = new Uint8Array(pagesFor(dataBytes));
  record.fill(1, RECORD_START);
  return segments.append(record, dataBytes);
}

const sizesOf = (folder: MemoryFolder): number[] =>
  [...folder.files.values()].map(({ length }) => length / LOG_PAGE_BYTES);

/** A turn of the event loop: what is made ahead is there. */
const made = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Numbers of the records with something in them. */
function sequencesIn(folder: MemoryFolder, oldest = 1): number[] {
  const files = folder.names().map((name) => folder.open(name));
  const { records } = scanLog(files, { log: LOG, oldest, last: 0, place: undefined });
  return records.filter(({ dataBytes }) => dataBytes > 0).map(({ sequence }) => sequence);
}

test('a log begins small, and each segment is as large as all before it, up to a limit', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, PAGES);
  for (let i = 0; i < 30; i++) {
    append(segments);
    await made();
  }
  assert.deepEqual(sizesOf(folder), [3, 3, 6, 9, 9, 9, 9].slice(0, sizesOf(folder).length));
  assert(sizesOf(folder).length >= 5);
  assert.equal(segments.madeLate, 1, 'only the first one was waited for');
  assert.equal(segments.bytes, sizesOf(folder).reduce((a, b) => a + b) * LOG_PAGE_BYTES);
});

test('segments that a checkpoint has freed are used again before another is made; later few are kept', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  for (let i = 1; i <= 20; i++) append(segments);
  await made();
  const most = folder.files.size;
  assert(most >= 20);
  segments.release(segments.lastSequence);
  assert.equal(segments.used.length, 1, 'the newest one takes the next record');
  assert(folder.files.size >= 20, 'as many may be needed again');
  for (let i = 0; i < 2 * 20 * 64; i++) segments.release(segments.lastSequence);
  assert(folder.files.size <= 6, `${folder.files.size} segments are left of ${most}`);
  const kept = new Set(folder.names());
  for (let i = 0; i < 3; i++) {
    append(segments);
    segments.release(segments.lastSequence);
    await made();
  }
  assert.deepEqual(new Set(folder.names()), kept);
  assert.deepEqual(sequencesIn(folder, segments.lastSequence), [segments.lastSequence]);
});

test('a checkpoint of a large body removes no segment, and the next body needs no new one', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  const writeBody = async (): Promise<void> => {
    for (let i = 0; i < 12; i++) append(segments);
    await made();
    segments.release(segments.lastSequence);
  };
  await writeBody();
  await writeBody();
  const names = folder.names();
  folder.before = (call) => assert.notEqual(call, 'create');
  for (let i = 0; i < 5; i++) await writeBody();
  assert.deepEqual(folder.names(), names);
});

test('a bound of free segments is kept, and a volume that is short of space gets back all but the usual', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  for (let i = 0; i < 60; i++) append(segments);
  await made();
  segments.release(segments.lastSequence);
  assert.equal(folder.files.size, 1 + 4 + 16);
  assert.equal(segments.trim(), true);
  assert.equal(folder.files.size, 1 + 4);
  assert.equal(segments.trim(), false);
});

test('a segment is free only when all before it are', () => {
  const segments = new Segments(new MemoryFolder(), LOG, ONE_EACH);
  const [first, second] = [1, 2, 3].map(() => append(segments));
  assert(first !== undefined && second !== undefined);
  first.hold();
  second.hold();
  assert.equal(segments.oldestNeeded, 1);
  first.release();
  assert.equal(segments.oldestNeeded, 3);
  second.release();
  assert.equal(segments.oldestNeeded, 6, 'nothing is needed');
  segments.release(3);
  assert.equal(segments.used.length, 2);
  segments.release(6);
  assert.equal(segments.used.length, 1, 'the newest is never free');
});

test('a record beyond all sizes has a segment of its own, which does not stay', () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, PAGES);
  append(segments);
  append(segments, 20 * LOG_PAGE_BYTES);
  append(segments);
  assert(sizesOf(folder).includes(22));
  assert.deepEqual(sequencesIn(folder), [1, 3, 5]);
  segments.release(5);
  assert(!sizesOf(folder).includes(22));
});

test('free segments that are too small are no reason to stop making larger ones', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, PAGES);
  for (let i = 0; i < 40; i++) {
    append(segments, 4 * LOG_PAGE_BYTES);
    segments.release(segments.lastSequence);
    await made();
  }
  const late = segments.madeLate;
  for (let i = 0; i < 40; i++) {
    append(segments, 4 * LOG_PAGE_BYTES);
    segments.release(segments.lastSequence);
    await made();
  }
  assert.equal(segments.madeLate, late, 'a turn waits for no segment');
});

test('reserve makes room for the next record', () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, PAGES);
  segments.reserve(PAGE_DATA);
  folder.before = (call) => assert.notEqual(call, 'create');
  append(segments);
  append(segments);
});

test('without room for another segment the log stays as it is, and the same record comes again', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  append(segments);
  folder.before = (call) => {
    if (call === 'create') throw NO_ROOM;
  };
  for (let i = 0; i < 3; i++) {
    assert.throws(() => append(segments), NO_ROOM);
    await made();
    assert.equal(segments.lastSequence, 1);
    assert.equal(segments.oldestNeeded, 2);
    assert.deepEqual(sequencesIn(folder), [1]);
  }
  folder.before = () => undefined;
  append(segments);
  append(segments);
  assert.deepEqual(sequencesIn(folder), [1, 3, 5]);
});

test('without room for a write, as on file systems that never write in place, nothing has changed', () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  append(segments);
  folder.before = (call) => {
    if (call === 'write') throw NO_ROOM;
  };
  assert.throws(() => append(segments), NO_ROOM);
  assert.throws(() => append(segments), NO_ROOM);
  assert.equal(segments.lastSequence, 1);
  folder.before = () => undefined;
  append(segments);
  assert.deepEqual(sequencesIn(folder), [1, 3]);
});

test('the last record is written again by the next start: the system may show what it could not write', () => {
  const folder = new MemoryFolder();
  append(new Segments(folder, LOG, PAGES));
  const calls: string[] = [];
  folder.before = (call) => void calls.push(call);
  const files = folder.names().map((name) => folder.open(name));
  const again = new Segments(folder, LOG, PAGES);
  again.adopt(files, scanLog(files, ALL), () => true);
  assert.deepEqual(calls, ['write', 'sync']);
  assert.deepEqual(sequencesIn(folder), [1]);
});

test('a sync that fails is told from everything else', (t) => {
  const file = new DiskFolder(folderOf(t)).create('segment-1', LOG_PAGE_BYTES, LOG);
  file.close();
  assert.throws(() => file.sync(), LogSyncError);
});

function folderOf(t: TestContext): string {
  const folder = temporaryFolder('segments');
  t.after(() => removeFolder(folder));
  return join(folder, 'log');
}

test('a segment has its size and its stamps before it gets its name; what was left half-made goes', async (t) => {
  const path = folderOf(t);
  const folder = new DiskFolder(path);
  const bytes = 300 * 1024;
  const files = [folder.create('segment-1', bytes, LOG), await folder.createAhead('segment-2', bytes, LOG)];
  for (const file of files) {
    assert(file !== undefined && !(file instanceof Error));
    assert.equal(file.bytes, bytes);
    assert.deepEqual(file.read(0, bytes), freshBytes(LOG, bytes));
    assert.equal(statSync(join(path, file.name)).mode & 0o777, 0o600);
    // All of its space is taken now, not when it is written.
    assert(statSync(join(path, file.name)).blocks * 512 >= bytes);
    file.close();
  }
  assert.equal(statSync(path).mode & 0o777, 0o700);
  for (const name of ['segment-3.new', 'segment-4', 'notes.txt', 'segment-x'])
    writeFileSync(join(path, name), 'not complete');
  assert.deepEqual(new DiskFolder(path).names().sort(), ['segment-1', 'segment-2', 'segment-4']);
  assert.deepEqual(readdirSync(path).sort(), ['notes.txt', 'segment-1', 'segment-2', 'segment-4', 'segment-x']);
});

test('a file that ends early is read as what it is', (t) => {
  const path = folderOf(t);
  const folder = new DiskFolder(path);
  const file = folder.create('segment-1', LOG_PAGE_BYTES, LOG);
  t.after(() => file.close());
  assert.throws(() => file.read(0, LOG_PAGE_BYTES + 1), /segment-1 of the log ends at 4096, before 4097/);
});

test('what was damaged is moved away as a whole, beside what was moved before', (t) => {
  const path = folderOf(t);
  const asides = ['log.damaged', 'log.damaged-2', 'log.damaged-3'];
  for (const [i, aside] of asides.entries()) {
    const folder = new DiskFolder(path);
    folder.create(`segment-${i}`, LOG_PAGE_BYTES, LOG).close();
    assert.equal(folder.setAside(), aside);
    assert.deepEqual(folder.names(), []);
  }
  for (const [i, aside] of asides.entries()) assert.deepEqual(readdirSync(join(path, '..', aside)), [`segment-${i}`]);
});

test('a segment that cannot be made ahead, and not for lack of room, ends the append that needs it', async () => {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, LOG, ONE_EACH);
  const broken = Object.assign(new Error('EIO: i/o error, write'), { code: 'EIO' });
  folder.createAhead = () => Promise.resolve(broken);
  append(segments);
  await made();
  assert.throws(() => append(segments), broken);
});

test('a log that is closed while a segment is being made closes that too', async (t) => {
  const path = folderOf(t);
  const segments = new Segments(new DiskFolder(path), LOG, PAGES);
  append(segments);
  await segments.close();
  const open = readdirSync('/proc/self/fd').length;
  for (let i = 0; i < 5; i++) {
    const again = new Segments(new DiskFolder(`${path}-${i}`), LOG, PAGES);
    append(again);
    await again.close();
  }
  assert(readdirSync('/proc/self/fd').length <= open);
});
