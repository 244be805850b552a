// The half of a group's key space that its state does not use is emptied in steps, so that no request waits for all of
// it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { TemporaryStore } from './temporary.ts';

function rows(count: number, from: number): Uint8Array {
  const value = new Uint8Array(100);
  const keyOf = (i: number): Uint8Array => new Uint8Array([0, 0, 0x50, i >> 8, i & 0xff]);
  const bytes = new Uint8Array(count * rowSize(keyOf(0), value));
  let at = 0;
  for (let i = 0; i < count; i++) at += writeRow(bytes, at, keyOf(from + i), value);
  return bytes;
}

test('each step deletes a bounded number of rows, in one commit, and says when the half is empty', (t) => {
  const { store } = new TemporaryStore(t);
  store.markUsed([]);
  const count = 3 * store.clearRowsMax + 7;
  for (let from = 0; from < count; from += 100) store.stage(3, [rows(Math.min(100, count - from), from)]);
  const left = (): number => {
    let found = 0;
    store.tx.range(new Uint8Array([0x00]), new Uint8Array([0xff]), false, (key) => {
      if (key[2] === 0x50) found++;
      return true;
    });
    return found;
  };
  assert.equal(left(), count);
  const answers: boolean[] = [];
  for (let i = 0; i < 3; i++) {
    answers.push(store.clearStage(3));
    assert.equal(left(), count - (i + 1) * store.clearRowsMax);
  }
  answers.push(store.clearStage(3), store.clearStage(3));
  assert.deepEqual(answers, [false, false, false, true, true]);
  assert.equal(left(), 0);
});
