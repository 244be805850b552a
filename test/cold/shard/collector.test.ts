// Objects that nothing needs any more: deleted after the grace, found when they are orphans, and nothing else ever.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHECKPOINT_MS } from '../../../src/shard/checkpoints.ts';
import { TAG } from '../../../src/stream/core/keys.ts';
import { code, find } from '../../shard/harness.ts';
import { ColdHarness } from './harness.ts';

const HOUR_MS = 3_600_000;
const body = (bytes: number, fill = 'x'): string => fill.repeat(bytes);

/** Streams s0.. with 100 bytes each, all in the cold store, each in its own object. */
function flushed(streams: number, settings: ConstructorParameters<typeof ColdHarness>[0] = {}): ColdHarness {
  const harness = new ColdHarness(settings);
  for (let i = 0; i < streams; i++) {
    harness.create(0, `s${i}`, { body: body(100, String(i % 10)) });
    harness.run(1300);
  }
  assert.equal(harness.port.objects.size, streams);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  return harness;
}

test('objects of removed streams go after the grace, in passes of bounded size, until the store is empty', () => {
  const harness = flushed(7);
  for (let i = 0; i < 7; i++) harness.remove(0, `s${i}`);
  harness.turn();
  assert.equal(harness.status().counters['cold_gc_queue_length'], 7);
  harness.run(1800);
  assert.equal(harness.port.objects.size, 7, 'a slow reader may still be at it');
  harness.run(1500);
  assert.equal(harness.port.objects.size, 0);
  const { state } = harness.groupOf();
  assert.deepEqual([state.cold.gcLength, state.cold.objects, state.cold.bytes], [0, 0, 0]);
  assert.equal(harness.status().counters['cold_gc_reclaimed'], 7);
});

test('objects that were queued by a clock that was an hour ahead hold up none of those behind them', () => {
  const ahead = 11;
  const harness = flushed(ahead + 1);
  harness.nowMs += HOUR_MS;
  for (let i = 0; i < ahead; i++) harness.remove(0, `s${i}`);
  harness.turn();
  harness.nowMs -= HOUR_MS;
  harness.remove(0, `s${ahead}`);
  harness.turn();
  harness.run(5000);
  assert.equal(harness.port.objects.size, ahead);
  assert.equal(harness.groupOf().state.cold.gcLength, ahead);
  harness.nowMs += HOUR_MS;
  harness.run(5000);
  assert.equal(harness.port.objects.size, 0);
});

for (const [what, isDamaged] of [
  ['an entry', (key: Uint8Array, nth: number) => key[2] === TAG.gc && key[8] === nth],
  ['an object', (key: Uint8Array, nth: number) => key[2] === TAG.object && key.at(-1) === nth + 1],
] as const) {
  test(`a row about ${what} that the disk changed keeps that object, and no other`, () => {
    const harness = flushed(7);
    for (let i = 0; i < 7; i++) harness.remove(0, `s${i}`);
    harness.turn();
    // Rows that no checkpoint has written yet are not the disk's.
    for (let i = 0; i < 2; i++) harness.turn(CHECKPOINT_MS / 2);
    assert.equal(harness.port.objects.size, 7);
    // At the head of the queue, and two in a row.
    harness.storage.isDamaged = (key) => [0, 3, 4].some((nth) => isDamaged(key, nth));
    harness.run(5000);
    const kept = [...harness.port.objects.keys()].map((key) => Number(`0x${key.slice(-1)}`));
    assert.deepEqual(kept, [1, 4, 5]);
    assert.equal(harness.groupOf().state.cold.gcLength, 3);
    const told = harness.logLines.filter((line) => /objects stay in the cold store/.test(line));
    assert.equal(told.length, 1, told.join('\n'));
    assert.match(told.join(), /"objects":3/);
    // As they were written, from another node.
    harness.storage.isDamaged = () => false;
    harness.run(5000);
    assert.deepEqual([harness.port.objects.size, harness.groupOf().state.cold.gcLength], [0, 0]);
  });
}

test('a removal that fails, or whose answer is lost, is done again', () => {
  const harness = flushed(3);
  for (let i = 0; i < 3; i++) harness.remove(0, `s${i}`);
  harness.turn();
  const outcomes = ['error', 'lost', 'error', 'ok'] as const;
  let asked = 0;
  harness.run(20_000, () => outcomes[Math.min(asked++, 3)] as 'ok');
  assert.equal(harness.port.objects.size, 0);
  assert.equal(harness.groupOf().state.cold.gcLength, 0);
  assert.equal(harness.status().counters['cold_gc_errors'], 3);
});

test('a restart between deletion and command repeats the deletion, which does no harm', () => {
  const harness = flushed(2);
  harness.remove(0, 's0');
  harness.turn();
  while (harness.port.count('remove') === 0) harness.turn(25);
  for (let i = 0; i < 9; i++) harness.turn(25);
  assert.equal(harness.groupOf().state.cold.gcLength, 1, 'queued until it is known to be deleted');
  harness.port.answer();
  harness.restartWith('00000000000000bb');
  assert.equal(harness.groupOf().state.cold.gcLength, 1);
  harness.run(5000);
  assert.equal(harness.groupOf().state.cold.gcLength, 0);
  assert.equal(harness.port.objects.size, 1);
  assert.equal(harness.whole('s1').toString(), body(100, '1'));
});

test('orphans are found and deleted: of lost answers, of earlier runs; foreign and young objects stay', () => {
  const harness = flushed(1);
  harness.create(0, 't', { body: body(100, 't') });
  // The upload happens, its answer does not come: the retry has another key.
  harness.run(4000, firstUpload('lost'));
  assert.equal(harness.port.objects.size, 3);
  const foreign = [
    'readme.txt',
    'g0000-00000000000000aa/bucket/pack/notes',
    'g0000-00000000000000ff/b/pack/00000000000000aa-0000000000ff',
  ];
  for (const key of foreign) harness.port.objects.set(key, { body: new Uint8Array(9), writtenAtMs: 0 });
  const earlier = 'g0000-00000000000000aa/gone/i5/0000000000000099-000000000007';
  harness.port.objects.set(earlier, { body: new Uint8Array(9), writtenAtMs: 0 });
  harness.run(16_000);
  const young = 'g0000-00000000000000aa/gone/i5/0000000000000099-000000000008';
  harness.port.objects.set(young, { body: new Uint8Array(9), writtenAtMs: harness.nowMs + 1e9 });
  harness.run(26_000);
  const left = [...harness.port.objects.keys()];
  assert.equal(left.length, 2 + foreign.length + 1, left.join('\n'));
  for (const key of [...foreign, young]) assert(left.includes(key), key);
  assert.equal(left.includes(earlier), false);
  assert.equal(harness.status().counters['cold_orphan_cleanup_attempts'], 2);
  assert.equal(harness.groupOf().state.cold.gcLength, 0);
  assert.equal(harness.whole('s0').toString(), body(100, '0'));
  assert.equal(harness.whole('t').toString(), body(100, 't'));
});

/** Two objects with rows in the store and nowhere else, and an orphan. */
function withOrphan(): {
  harness: ColdHarness;
  isSwept: () => boolean;
  rowOf: (nth: number) => (key: Uint8Array) => boolean;
} {
  const harness = flushed(2);
  for (let i = 0; i < 2; i++) harness.turn(CHECKPOINT_MS / 2);
  harness.restartWith('00000000000000bb');
  const orphan = 'g0000-00000000000000aa/gone/i5/0000000000000099-000000000007';
  harness.port.objects.set(orphan, { body: new Uint8Array(9), writtenAtMs: 0 });
  const rowOf = (nth: number) => (key: Uint8Array) => key[2] === TAG.object && key.at(-1) === nth;
  return { harness, isSwept: () => !harness.port.objects.has(orphan), rowOf };
}

test('a sweep that meets a row which the disk changed ends, and the next one comes when the row is sound', () => {
  const { harness, isSwept, rowOf } = withOrphan();
  harness.storage.isDamaged = rowOf(2);
  harness.run(26_000);
  assert.equal(isSwept(), false);
  harness.storage.isDamaged = () => false;
  harness.run(80_000);
  assert(isSwept());
  assert.equal(harness.port.objects.size, 2);
});

test('a group with a row that the disk changed is not swept: the row of an object may be elsewhere', () => {
  const { harness, isSwept, rowOf } = withOrphan();
  harness.storage.isGone = rowOf(1);
  harness.storage.isDamaged = (key) => key[2] === TAG.head && Buffer.from(key).toString().endsWith('s1');
  const slot = harness.read(0, 's1');
  assert.equal(code(find(harness.turn(), slot)), 'ROW_DAMAGED');
  harness.run(26_000);
  assert.equal(isSwept(), false);
  assert.equal(harness.port.objects.size, 3);
  harness.storage.isGone = () => false;
  harness.storage.isDamaged = () => false;
  harness.run(26_000);
  assert(isSwept());
  for (const i of [0, 1]) assert.equal(harness.whole(`s${i}`).toString(), body(100, String(i)));
});

test('an upload under way is no orphan, however long it takes', () => {
  const harness = flushed(1, { sweepGraceMs: -1e9 });
  harness.create(0, 't', { body: body(100, 't') });
  harness.turn();
  while (harness.port.count('put') === 0) harness.turn(25);
  const [asked] = harness.port.open.splice(
    harness.port.open.findIndex(({ task }) => task.op === 'put'),
    1,
  );
  assert(asked !== undefined);
  // In the store already, but the answer is in flight for half a minute.
  harness.port.happen(asked);
  harness.run(30_000);
  assert((harness.status().counters['cold_sweep_passes'] as number) > 0);
  assert.equal(harness.status().counters['cold_orphan_cleanup_attempts'], 0);
  harness.port.perform(asked, 'ok');
  harness.run(1000);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.whole('t').toString(), body(100, 't'));
  harness.run(30_000);
  assert.equal(harness.port.objects.size, 2);
  assert.equal(harness.whole('t').toString(), body(100, 't'));
});

function firstUpload(how: 'lost'): (op: string) => 'lost' | 'ok' {
  let used = false;
  return (op) => {
    const first = op === 'put' && !used;
    used ||= first;
    return first ? how : 'ok';
  };
}
