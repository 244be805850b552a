// A log that is damaged: a single node refuses to start, a node of a cluster marks its
// groups as lost before anything is moved.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Environment } from '../../src/store/environment.ts';
import { DiskFolder } from '../../src/store/log-files.ts';
import { LogDamage, RECORD_HEAD, SECTOR_BYTES } from '../../src/store/log-record.ts';
import { OWN_TAG, systemKey } from '../../src/store/rows.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { recordsIn } from './log-contents.ts';
import { SMALL_SEGMENTS, STORE_OPTIONS, TemporaryStore } from './temporary.ts';
import { FRESH, batch, checkpoint, entry, logOf, openLogs, show, voteOf } from './turns.ts';

const RECORDS = 9;

function fill({ store }: TemporaryStore): void {
  openLogs(store, FRESH);
  store.append([batch(1, [], { term: 3, vote: 2, commit: 0 })]);
  checkpoint(store);
  for (let i = 1; i <= RECORDS; i++) store.append([batch(1, [entry(i, 3)]), batch(2, [entry(i, 1)])]);
}

/** Flips a bit of the data of the fourth record that has some; the one before that says where the log goes on. */
function rot(folder: string): void {
  const record = recordsIn(folder).filter(({ items }) => items.length > 0)[3];
  assert(record?.sequence === 5, 'record 5 is there');
  const { path, at } = record;
  const content = readFileSync(path);
  content[at + 50] = (content[at + 50] ?? 0) ^ 4;
  writeFileSync(path, content);
}

test('a single node does not start with a damaged log: the sentence names shard, segment and place, and nothing is changed', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary);
  const store = await temporary.reopen(() => rot(temporary.logFolder));
  const before = recordsIn(temporary.logFolder);
  const refusal = new RegExp(
    `^Error: ${temporary.directory}: record 5 is not readable .*segment-1 at byte 16384 on, and record 6 .*; nothing was changed; no other node has what is in it: restore `,
  );
  for (let i = 0; i < 2; i++) assert.throws(() => openLogs(store, FRESH), refusal);
  assert.deepEqual(recordsIn(temporary.logFolder), before);
  assert.deepEqual(readdirSync(temporary.directory).sort(), ['data.mdb', 'lock.mdb', 'log']);
});

test('an entry that rots while the node runs is not handed out', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary);
  temporary.store.setLogMemory({ groupBytes: 0, shardBytes: 0 });
  const logs = openLogs(await temporary.reopen(), FRESH);
  const [first] = recordsIn(temporary.logFolder).filter(({ items }) => items.length > 1);
  assert(first !== undefined);
  const content = readFileSync(first.path);
  // A byte of the data of the first entry.
  content[first.at + RECORD_HEAD.size + 33] = 0;
  writeFileSync(first.path, content);
  assert.throws(() => show(logOf(logs, 1)), /entry 1 of group 1 at byte \d+ of segment-1 is not what was written/);
  assert.equal(show(logOf(logs, 2)).slice(0, 6), '1: 1@1');
});

test('a node of a cluster begins another log behind its state, with its groups marked as lost', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary);
  const store = await temporary.reopen(() => rot(temporary.logFolder));
  const logs = openLogs(store, FRESH, 'of three');
  assert.match(store.found.lost?.why ?? '', /^record 5 is not readable/);
  assert.equal(store.found.lost?.aside, 'log.damaged');
  assert.deepEqual([store.lost(1), store.lost(2)], [2, 2]);
  assert.deepEqual([...logs.values()].map(show), ['1:', '1:']);
  assert.deepEqual(voteOf(store, 1), { term: 3, vote: 2 }, 'a vote that a checkpoint has stays');
  // It goes on from there, and finds it again.
  store.append([batch(1, [entry(1, 7)])]);
  const again = openLogs(await temporary.reopen(), FRESH, 'of three');
  assert.equal(show(logOf(again, 1)), '1: 1@7');
  assert.equal(temporary.store.found.lost, undefined);
  assert(temporary.store.lost(1));
});

/** Its commits fail from the n-th on, as if the process had ended. */
class EndingEnvironment extends Environment {
  left: number;

  constructor(directory: string, left: number) {
    super(directory);
    this.left = left;
  }

  override commit(write: () => void): void {
    if (this.left-- <= 0) throw new Error('the end');
    super.commit(write);
  }
}

/** Opens the store until its n-th commit. False: it came to that. */
async function startThatEnds({ directory, logFolder }: TemporaryStore, commits: number): Promise<boolean> {
  const environment = new EndingEnvironment(directory, commits);
  const disk = { environment, folder: new DiskFolder(logFolder), sizes: SMALL_SEGMENTS };
  const store = new ShardStore(directory, { ...STORE_OPTIONS, disk });
  try {
    openLogs(store, FRESH, 'of three');
    return true;
  } catch (error) {
    assert.match(String(error), /the end/);
    return false;
  } finally {
    await store.close();
  }
}

test('wherever a start ends that gives a damaged log up, the next one does not take an empty log for a whole one', async (t) => {
  let steps = 0;
  for (let isDone = false; !isDone; steps++) {
    const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
    openLogs(temporary.store, FRESH);
    // No checkpoint covers any of them.
    for (let i = 1; i <= RECORDS; i++) temporary.store.append([batch(1, [entry(i, 3)])]);
    const store = await temporary.reopen(async () => {
      rot(temporary.logFolder);
      isDone = await startThatEnds(temporary, steps);
    });
    openLogs(store, FRESH, 'of three');
    assert.deepEqual([store.lost(1), store.lost(2)], [2, 2], `after ${steps} commits`);
  }
  assert(steps > 2, `${steps} ends were tried`);
});

test('a shard folder without its log is damaged too', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary);
  const store = await temporary.reopen(() => rmSync(join(temporary.directory, 'log'), { recursive: true }));
  assert.throws(() => openLogs(store, FRESH), LogDamage);
  assert.throws(() => openLogs(store, FRESH), /the log has no segment files; nothing was changed/);
});

test('a store that was used and does not say which log is its own is damaged, and its log stays', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary);
  temporary.store.markUsed([]);
  const store = await temporary.reopen(async () => {
    const environment = new Environment(temporary.directory);
    environment.commit(() => environment.state.removeSync(systemKey(OWN_TAG.log, 0)));
    await environment.close();
  });
  const before = recordsIn(temporary.logFolder);
  assert.throws(() => openLogs(store, FRESH), /which log belongs to the state is missing, and the log holds records/);
  assert.deepEqual(recordsIn(temporary.logFolder), before);
});

test('a store that is marked as used, and whose power failed before it had a log, begins with an empty one', async (t) => {
  const temporary = new TemporaryStore(t);
  temporary.store.markUsed([]);
  mkdirSync(temporary.logFolder, { recursive: true });
  writeFileSync(join(temporary.logFolder, 'segment-1'), new Uint8Array(4096));
  openLogs(await temporary.reopen(), FRESH);
  temporary.store.append([batch(1, [entry(1, 1)])]);
  assert.equal(show(logOf(openLogs(await temporary.reopen(), FRESH), 1)), '1: 1@1');
});

test('a last record that was not written to its end is cut off, reported, and written again', async (t) => {
  const temporary = new TemporaryStore(t);
  fill(temporary);
  const last = RECORDS + 1;
  temporary.store.append([batch(2, [entry(last, 1)]), batch(1, [entry(last, 3, 'x'.repeat(3000))])]);
  const store = await temporary.reopen(() => {
    const record = recordsIn(temporary.logFolder).at(-1);
    assert(record !== undefined);
    const content = readFileSync(record.path);
    // All sectors but the first are what they were.
    content.copyWithin(record.at + SECTOR_BYTES, content.length - 7 * SECTOR_BYTES);
    writeFileSync(record.path, content);
  });
  const logs = openLogs(store, FRESH);
  const { sequence, items } = store.found.cut ?? assert.fail('it is reported');
  assert.equal(sequence, last + 1);
  assert.deepEqual(
    items.map(({ group, index }) => [group, index]),
    [[2, last]],
    'as far as it is there',
  );
  assert.deepEqual(
    [...logs.values()].map((log) => log.lastIndex()),
    [RECORDS, RECORDS],
  );
  store.append([batch(1, [entry(last, 4)])]);
  const again = openLogs(await temporary.reopen(), FRESH);
  assert.equal(logOf(again, 1).lastIndex(), last);
  assert.equal(temporary.store.found.cut, undefined);
});

test('a free segment that is damaged is removed, and a record that nothing needs is not looked at', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary);
  for (const group of [1, 2]) temporary.store.compact(group, RECORDS);
  checkpoint(temporary.store);
  checkpoint(temporary.store);
  const applied = new Map([1, 2].map((group) => [group, [RECORDS, group === 1 ? 3 : 1]] as const));
  const damaged: string[] = [];
  const store = await temporary.reopen(() => {
    const used = recordsIn(temporary.logFolder).at(-1);
    for (const name of readdirSync(temporary.logFolder)) {
      const path = join(temporary.logFolder, name);
      const content = readFileSync(path);
      if (path === used?.path) content.fill(0, 0, used.at + used.bytes);
      else content.fill(7, 0, 5000);
      writeFileSync(path, content);
      if (path !== used?.path) damaged.push(`${name} holds what the log did not write`);
    }
  });
  const logs = openLogs(store, applied);
  assert(damaged.length > 0);
  assert.deepEqual(store.found.removed?.toSorted(), damaged.sort());
  store.append([batch(1, [entry(RECORDS + 1, 3)])]);
  assert.equal(show(logOf(logs, 1)), '10: 10@3');
  assert.equal(show(logOf(openLogs(await temporary.reopen(), applied), 1)), '10: 10@3');
});
