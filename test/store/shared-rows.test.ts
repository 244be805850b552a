// Rows that go to the thread which writes checkpoints: it reads them where the shard put them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import type { Pending } from '../../src/base/overlay.ts';
import { type SentRows, SharedRows, rowsToSend, sentRows } from '../../src/store/shared-rows.ts';
import { WriteBehind } from '../../src/store/write-behind.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';

const MIB = 1024 * 1024;

/** Puts rows of these sizes, and one that is deleted, into `memory`. */
function put(memory: SharedRows, ...sizes: number[]): Pending[] {
  const rows = sizes.map((bytes, i) => ({
    key: memory.copy(Uint8Array.of(1, i)),
    value: memory.copy(new Uint8Array(bytes).fill(i + 1)),
  }));
  return [...rows, { key: memory.copy(Uint8Array.of(9)), value: undefined }];
}

function sent(rows: readonly Pending[]): SentRows {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(rowsToSend(rows));
  const received = receiveMessageOnPort(port2) as { message: SentRows };
  port1.close();
  return received.message;
}

const plain = (rows: Iterable<Pending>): unknown[] =>
  Array.from(rows, ({ key, value }) => [Array.from(key), value === undefined ? undefined : Array.from(value)]);

test('all rows arrive, empty, larger than a block and deleted ones too, and none is copied', () => {
  const memory = new SharedRows();
  const rows = put(memory, 0, 1, 4072, 3 * MIB, 70_000, 4072);
  const message = sent(rows);
  assert.deepEqual(plain(sentRows(message)), plain(rows));
  rows[1]?.value?.fill(200);
  assert.deepEqual([...sentRows(message)][1]?.value, Uint8Array.of(200), 'both look at the same byte');
});

test('nothing is written over before clear(), and afterwards the same memory is used, of a large body a part', () => {
  const memory = new SharedRows();
  const sizes = Array.from({ length: 500 }, () => 4072);
  const rows = put(memory, ...sizes);
  const before = plain(rows);
  put(memory, ...sizes);
  assert.deepEqual(plain(rows), before);
  const buffersOf = (of: readonly Pending[]): ArrayBufferLike[] => [...rowsToSend(of).blocks];
  const blocks = new Set(buffersOf(rows));
  memory.clear();
  assert(buffersOf(put(memory, ...sizes)).every((block) => blocks.has(block)));
  put(memory, ...Array.from({ length: 8000 }, () => 4072));
  memory.clear();
  const again = buffersOf(put(memory, ...Array.from({ length: 8000 }, () => 4072)));
  const keptBytes = again.filter((block) => blocks.has(block)).reduce((sum, { byteLength }) => sum + byteLength, 0);
  assert(keptBytes <= 16 * MIB);
});

test('while checkpoints fail, rows that are written again and again take no more memory than a few of them', () => {
  const tx = new WriteBehind(new SortedMapTx());
  const value = new Uint8Array(MIB);
  for (let i = 0; i < 100; i++) {
    tx.collect(() => {
      tx.put(Uint8Array.of(1), value.fill(i));
      tx.delete(Uint8Array.of(2));
    });
  }
  assert(tx.memoryBytes < 16 * MIB, `${tx.memoryBytes} bytes`);
  assert.deepEqual(plain(tx.pending), [
    [[1], Array.from(value)],
    [[2], undefined],
  ]);
});
