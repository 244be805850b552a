// A log that is damaged: a single node refuses to start, a node of a cluster marks its
// groups as lost before anything is moved.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Environment } from '../../src/store/environment.ts';
import { DiskFolder } from '../../src/store/log-files.ts';
import { LogDamage } from '../../src/store/log-scan.ts';
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

/** Flips a bit of the data of record `sequence`. */
function rot(folder: string, sequence: number): string {
  const record = recordsIn(folder).find((one) => one.sequence === sequence);
  assert(record !== undefined, `record ${sequence} is there`);
  const { path, name, at } = record;
  const content = readFileSync(path);
  content[at + 50] = (content[at + 50] ?? 0) ^ 4;
  writeFileSync(path, content);
  return `${name} at byte ${at}`;
}

test('a single node does not start with a damaged log: the sentence names shard, segment and place, and nothing is changed', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS });
  fill(temporary);
  let place = '';
  const store = await temporary.reopen(() => void (place = rot(temporary.logFolder, 4)));
  const before = recordsIn(temporary.logFolder);
  const refusal = new RegExp(
    `^Error: ${temporary.directory}: record 4 is not readable .*${place} on.*; nothing was changed; restore `,
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
  content[first.at + 32 + 33] = 0;
  writeFileSync(first.path, content);
  assert.throws(() => show(logOf(logs, 1)), /entry 1 of group 1 at byte \d+ of segment-1 is not what was written/);
  assert.equal(show(logOf(logs, 2)).slice(0, 6), '1: 1@1');
});

test('a node of a cluster begins another log behind its state, with its groups marked as lost', async (t) => {
  const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS, damage: 'lose' });
  fill(temporary);
  const store = await temporary.reopen(() => void rot(temporary.logFolder, 4));
  const logs = openLogs(store, FRESH);
  assert.match(store.found.lost?.why ?? '', /^record 4 is not readable/);
  assert.equal(store.found.lost?.aside, 'log.damaged');
  assert.deepEqual([store.lost(1), store.lost(2)], [true, true]);
  assert.deepEqual([...logs.values()].map(show), ['1:', '1:']);
  assert.deepEqual(voteOf(store, 1), { term: 3, vote: 2 }, 'a vote that a checkpoint has stays');
  // It goes on from there, and finds it again.
  store.append([batch(1, [entry(1, 7)])]);
  const again = openLogs(await temporary.reopen(), FRESH);
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
  const store = new ShardStore(directory, { ...STORE_OPTIONS, damage: 'lose', disk });
  try {
    openLogs(store, FRESH);
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
    const temporary = new TemporaryStore(t, { sizes: SMALL_SEGMENTS, damage: 'lose' });
    openLogs(temporary.store, FRESH);
    // No checkpoint covers any of them.
    for (let i = 1; i <= RECORDS; i++) temporary.store.append([batch(1, [entry(i, 3)])]);
    const store = await temporary.reopen(async () => {
      rot(temporary.logFolder, 4);
      isDone = await startThatEnds(temporary, steps);
    });
    openLogs(store, FRESH);
    assert.deepEqual([store.lost(1), store.lost(2)], [true, true], `after ${steps} commits`);
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
