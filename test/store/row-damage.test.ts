// A row that changed on the disk is not handed out: not to the state machine, not to another node, not to an export.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RowDamage } from '../../src/base/row-damage.ts';
import { StoreReader } from '../../src/store/group-reader.ts';
import { flipWord } from './flip-word.ts';
import { TemporaryStore } from './temporary.ts';
import { FRESH, openLogs } from './turns.ts';

const GROUP = 1;
const TAG = 0x64;
const keyOf = (i: number): Uint8Array => Uint8Array.of(0, GROUP, TAG, i);
const PRECIOUS = 'PRECIOUS';

/** Rows in leaves and in pages of their own; each ends with its own word. */
function valueOf(i: number): Uint8Array {
  const value = new Uint8Array(i % 2 === 0 ? 100 : 4068);
  value.set(Buffer.from(`${PRECIOUS} ${i}.`), value.length - 20);
  return value;
}

for (const changed of [4, 5]) {
  test(`a changed row of ${valueOf(changed).length} bytes goes nowhere; those around it do`, async (t) => {
    const temporary = new TemporaryStore(t);
    openLogs(temporary.store, FRESH);
    temporary.store.startCheckpoint(() => {
      for (let i = 0; i < 8; i++) temporary.store.tx.put(keyOf(i), valueOf(i));
    });
    assert(temporary.store.endCheckpoint('wait'));
    const store = await temporary.reopen(() => flipWord(temporary.directory, `${PRECIOUS} ${changed}.`));
    openLogs(store, FRESH);

    assert.throws(() => store.tx.get(keyOf(changed)), RowDamage);
    for (let i = 0; i < 8; i++) if (i !== changed) assert.deepEqual(store.tx.get(keyOf(i)), valueOf(i));

    const visited: number[] = [];
    const visit = (key: Uint8Array): boolean => visited.push(key[3] as number) > 0;
    assert.throws(() => store.tx.range(keyOf(0), keyOf(8), false, visit), RowDamage);
    assert.equal(visited.length, changed);
    // Its place can still be emptied.
    store.tx.keys(keyOf(changed), keyOf(8), visit);
    assert.equal(visited.length, 8);

    const sent = store.openSnapshot(GROUP);
    assert.throws(() => {
      while (sent.next(5000) !== undefined);
    }, RowDamage);
    sent.close();

    const reader = new StoreReader(temporary.directory);
    const group = reader.openGroup(GROUP);
    assert.throws(() => [...group.rows([TAG])], RowDamage);
    group.close();
    await reader.close();
  });
}
