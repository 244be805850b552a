// Checkpoints that find no room: their rows are shown, kept, and on disk with whatever
// is committed next; the log keeps what they cover.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { StorageFullError } from '../../src/shard/ports.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { neededRecords } from './log-contents.ts';
import { TemporaryStore } from './temporary.ts';
import {
  type Applied,
  FRESH,
  batch,
  checkpoint,
  entry,
  logOf,
  openLogs,
  show,
  snapshotBatch,
  voteOf,
} from './turns.ts';

const ONE_EACH = { bytesMin: 4096, bytesMax: 4096 };
const NO_SPACE = Object.assign(new Error('No space left on device'), { code: 28 });
const VALUE = new Uint8Array([7]);

/** A store on a volume that has room for checkpoints when `hasRoom` says so. */
class SmallVolume {
  hasRoom = true;
  readonly temporary: TemporaryStore;

  constructor(t: TestContext) {
    this.temporary = new TemporaryStore(t, { sizes: ONE_EACH, failure: () => (this.hasRoom ? undefined : NO_SPACE) });
  }
}

test('a checkpoint whose sync failed is not written again with what is committed next', (t) => {
  const failure = (): Error => Object.assign(new Error('Input/output error'), { code: 5 });
  const { store } = new TemporaryStore(t, { sizes: ONE_EACH, failure });
  openLogs(store, FRESH);
  const key = new Uint8Array([0, 1, 0x68]);
  store.startCheckpoint(() => store.tx.put(key, VALUE));
  assert.throws(() => store.stage(1, [rowsOf(key, VALUE)]), /data\.mdb: Input\/output error/);
  assert.throws(() => store.endCheckpoint('wait'), /data\.mdb: Input\/output error/);
});

test('a checkpoint without room frees nothing, and its rows go with the next one', async (t) => {
  const volume = new SmallVolume(t);
  const { store } = volume.temporary;
  const needed = (): number => neededRecords(store.tx, volume.temporary.logFolder).length;
  const logs = openLogs(store, FRESH);
  store.append([batch(1, [entry(1, 1)])]);
  store.append([batch(1, [entry(2, 1)], { term: 9, vote: 9, commit: 0 })]);
  store.compact(1, 1);
  const key = new Uint8Array([0, 1, 0x68]);
  volume.hasRoom = false;
  store.startCheckpoint(() => store.tx.put(key, VALUE));
  assert.throws(() => store.endCheckpoint('wait'), StorageFullError);
  assert.deepEqual(store.tx.get(key), VALUE, 'what the shard has written it sees');
  assert.equal(store.endCheckpoint('wait'), true, 'it is said once');
  volume.hasRoom = true;
  checkpoint(store);
  assert.equal(needed(), 1);
  assert.equal(show(logOf(logs, 1)), '2: 2@1');
  const applied: Applied = new Map([...FRESH, [1, [1, 1]]]);
  const again = openLogs(await volume.temporary.reopen(), applied);
  assert.equal(show(logOf(again, 1)), '2: 2@1');
  assert.deepEqual(voteOf(volume.temporary.store, 1), { term: 9, vote: 9 });
  assert.deepEqual(volume.temporary.store.tx.get(key), VALUE);
});

function rowsOf(key: Uint8Array, value: Uint8Array): Uint8Array {
  const rows = new Uint8Array(rowSize(key, value));
  writeRow(rows, 0, key, value);
  return rows;
}

test('rows of a checkpoint without room do not come back into the half that a snapshot has left', (t) => {
  const volume = new SmallVolume(t);
  const { store } = volume.temporary;
  openLogs(store, FRESH);
  store.markUsed([]);
  const old = store.prefix(1);
  const key = new Uint8Array([0, old, 0x68]);
  volume.hasRoom = false;
  store.startCheckpoint(() => store.tx.put(key, VALUE));
  assert.throws(() => store.endCheckpoint('wait'), StorageFullError);
  store.stage(1, [rowsOf(key, new Uint8Array([8]))]);
  store.append([snapshotBatch(1, 5, 2)]);
  assert.notEqual(store.prefix(1), old);
  volume.hasRoom = true;
  while (!store.clearStage(1));
  assert.equal(store.tx.get(key), undefined, 'the half is empty');
  store.stage(1, [rowsOf(new Uint8Array([0, old, 0x69]), VALUE)]);
  checkpoint(store);
  assert.equal(store.tx.get(key), undefined, 'and what is staged there now is all that it holds');
});
