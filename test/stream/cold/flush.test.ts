// The cold tier of the state machine, case by case; the differential test has the rest.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READ_BYTES_MAX } from '../../../src/base/limits.ts';
import { assembleRead } from '../../../src/stream/cold/assemble.ts';
import { ReadCollector } from '../../../src/stream/core/collect.ts';
import { objectKnown, storedObject } from '../../../src/stream/cold/objects.ts';
import { raiseStartOffset } from '../../../src/stream/cold/hot.ts';
import type { ColdPlan } from '../../../src/protocol/cold.ts';
import { REPLY_COLD, Reply } from '../../../src/protocol/reply.ts';
import { READ_FLAG_PARTS } from '../../../src/protocol/queries/read.ts';
import { READ_RECORD } from '../../../src/protocol/read-fields.ts';
import { NOW, Rig } from './rig.ts';

test('the floor inside a chunk: readers below are told so, the chunk stays until all of it is below', () => {
  const rig = new Rig();
  rig.create('s', 'application/json');
  for (let i = 0; i < 30; i++) rig.append('s', 'application/json', `{"n":${i}}`);
  const early = rig.read('s', 0).body.toString();
  // Some at a time, so that the floor passes chunks; the last ten stay in rows.
  for (let i = 0; i < 4; i++) assert.equal(rig.flush(43), 1);
  const head = rig.head('s');
  assert(head.hotRecord > 12 && head.hotRecord < 30);
  const records = JSON.parse(early) as { n: number }[];
  const offsetOf = (n: number): number =>
    records.slice(0, n).reduce((sum, one) => sum + JSON.stringify(one).length + 1, 0);
  const before = rig.cold.objects.size;
  raiseStartOffset(rig.state, head, offsetOf(8), 8, NOW);
  assert.equal(rig.state.cold.gcLength, 1, 'the first chunk is below, the second not yet');
  assert.equal(rig.read('s', 0).outcome.code, 'STREAM_GONE');
  assert.equal(rig.read('s', offsetOf(8)).body.toString(), JSON.stringify(records.slice(8)));
  assert.equal(rig.read('s', 8, { mode: READ_RECORD }).body.toString(), JSON.stringify(records.slice(8)));
  assert.equal(rig.read('s', 7, { mode: READ_RECORD }).outcome.code, 'STREAM_GONE');
  assert.equal(rig.read('s', offsetOf(9) + 1).outcome.code, 'OFFSET_INSIDE_RECORD');
  rig.collectAll();
  assert.equal(rig.cold.objects.size, before - 1);
  rig.check();

  // Into the rows: nothing is left in the cold store, and the row under the floor is split.
  raiseStartOffset(rig.state, head, offsetOf(25), 25, NOW);
  assert.deepEqual([head.hotStart, head.hotRecord, head.startOffset], [offsetOf(25), 25, offsetOf(25)]);
  assert.equal(rig.state.hotBytes, head.tail - offsetOf(25));
  assert.equal(rig.state.cold.bytes, 0);
  rig.collectAll();
  assert.equal(rig.cold.objects.size, 0);
  assert.equal(rig.read('s', offsetOf(25)).body.toString(), JSON.stringify(records.slice(25)));
  rig.append('s', 'application/json', '{"n":30}');
  assert.equal(rig.read('s', 30, { mode: READ_RECORD }).body.toString(), '[{"n":30}]');
  rig.check();
  assert.equal(rig.replica.usage()[0]?.split(' ')[5], String(head.tail - head.startOffset), 'retained bytes');
});

test('a flush that the floor has overtaken is refused, and its object is garbage', () => {
  const rig = new Rig();
  rig.create('s', 'text/plain');
  for (let i = 0; i < 5; i++) rig.append('s', 'text/plain', 'abcd');
  const late = rig.cold.upload(rig.state, { hotBeforeMs: Infinity, maxBytes: 12 });
  assert(late !== undefined);
  raiseStartOffset(rig.state, rig.head('s'), 8, 2, NOW);
  rig.commit(rig.cold.entry(late, NOW));
  assert.equal(storedObject(rig.state, late.list.object)?.refs, 0);
  assert.equal(rig.read('s', 8).body.toString(), 'abcdabcdabcd');
  rig.collectAll();
  assert(!objectKnown(rig.state, late.list.object));
  assert.equal(rig.cold.objects.size, 0);
  rig.check();
});

test('a record larger than chunks goes to the cold store alone, whole, and comes back whole', () => {
  const rig = new Rig();
  rig.create('s', 'application/json');
  const long = `"${'x'.repeat(3 * READ_BYTES_MAX)}"`;
  rig.append('s', 'application/json', '1');
  rig.append('s', 'application/json', `[${long},2]`);
  rig.append('s', 'application/json', '3');
  assert.equal(rig.flush(1000), 1, 'the first record');
  assert(rig.flush(1000) >= 3, 'the long one, whatever the limit');
  assert.equal(rig.head('s').hotRecord, 2);
  const got = rig.read('s', 2);
  assert(
    got.body.toString() === `[${long}]`,
    `${JSON.stringify(got.outcome)} ${got.body.length} ${JSON.stringify(rig.plan?.refs.map((r) => ({ ...r, digest: 0 })))} needed ${rig.plan?.needed}`,
  );
  assert(rig.read('s', 1, { mode: READ_RECORD }).body.equals(got.body));
  assert.equal(rig.read('s', 0).body.toString(), '[1]');
  assert.equal(rig.read('s', 2_000_000).outcome.code, 'OFFSET_INSIDE_RECORD');
  const end = 2 + long.length + 1;
  assert.equal(rig.read('s', end).body.toString(), '[2,3]');
  rig.flush();
  assert.equal(rig.read('s', end).body.toString(), '[2,3]');
  rig.check();
});

test('messages of a byte stream keep their borders in the cold store', () => {
  const rig = new Rig();
  rig.create('s', 'text/plain');
  for (const text of ['a', 'bcd', 'x'.repeat(9000), 'ef']) rig.append('s', 'text/plain', text);
  for (const expectCold of [false, true]) {
    if (expectCold) while (rig.flush(100) > 0);
    const { body } = rig.read('s', 1, { readFlags: READ_FLAG_PARTS });
    assert.deepEqual([...new Uint32Array(new Uint8Array(body).buffer, 0, 4)], [3, 3, 9003, 9005]);
    assert.equal(body.subarray(16).toString(), `bcd${'x'.repeat(9000)}ef`);
    for (const [offset, code] of [
      [2, 'OFFSET_INSIDE_RECORD'],
      [4, 'OK'],
      [5, 'OFFSET_INSIDE_RECORD'],
      [9004, 'OK'],
      [9006, 'OK'],
    ] as const) {
      const { outcome } = rig.read('s', offset, { readFlags: READ_FLAG_PARTS, maxRecords: 1 });
      assert.equal(outcome.code, code, `border at ${offset}`);
    }
  }
});

test('chunks of a long stream are released a bounded number at a time, until nothing is left', () => {
  const rig = new Rig();
  rig.create('s', 'text/plain');
  for (let i = 0; i < 1500; i++) {
    rig.append('s', 'text/plain', 'ab');
    assert.equal(rig.flush(), 1);
  }
  assert.equal(rig.state.cold.bytes, 3000);
  rig.replica.flush();
  assert.equal(rig.run('s', { kind: 'delete' }), 'OK');
  assert.equal(rig.state.cold.bytes, 3000 - 2 * 256);
  assert.equal(rig.state.cold.gcLength, 256);
  rig.replica.restart(false);
  assert(rig.replica.expiryDue(NOW));
  rig.run('', { kind: 'expire' });
  assert.equal(rig.state.cold.bytes, 2 * (1500 - 256 - 1024));
  rig.run('', { kind: 'expire' });
  assert(!rig.replica.expiryDue(NOW));
  rig.collectAll();
  assert.equal(rig.cold.objects.size, 0);
  rig.check();
});

test('a wrong chunk is named, and the reply stays as it was', () => {
  const rig = new Rig();
  rig.create('s', 'text/plain');
  for (let i = 0; i < 3; i++) {
    rig.append('s', 'text/plain', `part${i}`);
    rig.flush();
  }
  assert.equal(rig.read('s', 0).body.toString(), 'part0part1part2');
  const plan = rig.plan as ColdPlan;
  const chunks = rig.cold.chunks(plan);
  assert.equal(chunks.length, 3);
  const swapped = [chunks[0], chunks[2], chunks[1]] as Uint8Array[];
  const cut = [chunks[0], chunks[1], (chunks[2] as Uint8Array).subarray(1)] as Uint8Array[];
  for (const [given, bad] of [
    [swapped, 1],
    [cut, 2],
    [[], 0],
  ] as const) {
    const reply = new Reply();
    reply.flags = REPLY_COLD;
    assert.equal(assembleRead(plan, given, reply, new ReadCollector()), plan.refs[bad]);
    assert.equal(reply.flags, REPLY_COLD);
  }
});

test('rows go away as fast as bytes come: 2 MiB of records per checkpoint, moved to the cold store one checkpoint later', () => {
  const rig = new Rig();
  rig.create('s', 'application/json');
  const records = `[${Array.from({ length: 8000 }, () => `"${'x'.repeat(250)}"`).join(',')}]`;
  let most = 0;
  for (let round = 0; round < 12; round++) {
    rig.append('s', 'application/json', records);
    rig.replica.flush();
    rig.flush();
    most = Math.max(most, rig.replica.tx.size);
  }
  // Those of a round, written, and those of the round before: two for each 4 KB.
  assert(most < 2 * 2 * 600, `${most} rows`);
});

test('a flush settles the origin once, and one without slices leaves nothing else', () => {
  const rig = new Rig();
  rig.create('s', 'text/plain');
  const list = { object: { run: 'a'.repeat(16), seq: 0 }, key: '', bytes: 0, slices: [] };
  rig.commit(rig.cold.entry({ bucket: 'bucket', list }, NOW));
  assert.equal(rig.state.cold.origin, 'a'.repeat(16));
  assert.equal(rig.state.cold.objects, 0);
  rig.append('s', 'text/plain', 'x');
  rig.flush();
  assert.equal(rig.state.cold.origin, 'a'.repeat(16));
  assert([...rig.cold.objects.keys()][0]?.startsWith(`g0102-${'a'.repeat(16)}/bucket/i1/`));
  rig.replica.flush();
  rig.replica.restart(false);
  assert.equal(rig.state.cold.origin, 'a'.repeat(16));
});
