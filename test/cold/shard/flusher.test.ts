// The flusher: what makes it start, what it leaves alone, and what it does when the store or its leadership fails it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ColdHarness } from './harness.ts';
import { code, find } from '../../shard/harness.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';
import type { CallOutcome, CallResult } from '../../../src/protocol/queries/administration.ts';

const body = (bytes: number, fill = 'x'): string => fill.repeat(bytes);

function started(settings: ConstructorParameters<typeof ColdHarness>[0] = {}): ColdHarness {
  const harness = new ColdHarness(settings);
  harness.create(0, 's');
  harness.turn();
  return harness;
}

test('bytes move when they are old enough, several streams in one object, and are read back from there', () => {
  const harness = started();
  harness.create(0, 't', { body: body(300, 't') });
  harness.append(0, 's', body(200));
  harness.run(900);
  assert.equal(harness.port.uploaded.length, 0, 'not before the interval');
  harness.run(400);
  const [key] = harness.port.uploaded;
  assert.equal(harness.port.uploaded.length, 1);
  assert.match(key as string, /^g0000-00000000000000aa\/bucket\/pack\/00000000000000aa-000000000001$/);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.groupOf().state.cold.bytes, 500);
  harness.append(0, 's', body(10, 'y'));
  harness.turn();
  assert.equal(harness.whole('s').toString(), body(200) + body(10, 'y'));
  assert.equal(harness.whole('t').toString(), body(300, 't'));
  harness.run(1500);
  assert.equal(harness.port.uploaded.length, 2);
  assert.match(harness.port.uploaded[1] as string, /\/bucket\/i[0-9a-f]+\//, 'a stream alone has objects of its own');
  assert.equal(harness.whole('s').toString(), body(200) + body(10, 'y'));
});

test('a group with many hot bytes does not wait for their age, and continues until it has few', () => {
  const harness = started();
  for (let i = 0; i < 5; i++) harness.append(0, 's', body(4000));
  harness.turn();
  harness.run(700);
  assert.equal(harness.groupOf().state.hotBytes < 4096, true, `${harness.groupOf().state.hotBytes} bytes are hot`);
  assert(harness.port.uploaded.length >= 2, 'one object holds 8192 bytes');
  assert.equal(harness.whole('s').length, 20_000);
});

test('under pressure everything moves at once; refused writes pass again by themselves', () => {
  const harness = started({ hotBytesMax: 2000, flushBytes: 1e9, flushIntervalMs: 3_600_000 });
  harness.append(0, 's', body(900));
  harness.turn();
  harness.run(500);
  assert.equal(harness.port.uploaded.length, 0, 'below half of the bound nothing presses');
  harness.append(0, 's', body(900));
  harness.turn();
  const refused = harness.append(0, 's', body(300));
  assert.equal(code(find(harness.turn(), refused)), 'BACKPRESSURE');
  assert.equal(harness.status().counters['cold_backpressure_events'], 1);
  assert.equal(harness.status().raft_groups[0]?.['cold_write_admission'], 'refusing');
  harness.run(500);
  const taken = harness.append(0, 's', body(300));
  assert.equal(code(find(harness.turn(), taken)), 'OK');
  const { counters } = harness.status();
  assert.equal(counters['cold_pressure_flush_passes'], 1);
  assert.equal(counters['cold_flush_publish_bytes'], 1800);
  assert.equal(counters['cold_flush_backlog_bytes'], 300);
});

test('a store that refuses is asked again, later each time and with another key; then the bytes move', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  harness.run(10_000, () => 'error');
  const tries = harness.port.uploaded.length;
  assert(tries >= 4 && tries <= 12, `${tries} tries in nine seconds`);
  assert.equal(new Set(harness.port.uploaded).size, tries);
  assert.equal(harness.groupOf().state.hotBytes, 100);
  assert.equal(harness.status().counters['cold_flush_write_errors'], tries);
  harness.run(6000);
  assert.equal(harness.port.uploaded.length, tries + 1);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.whole('s').toString(), body(100));
});

test('a wall clock that is set back by hours keeps bytes on the nodes for a minute, not for hours', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  harness.nowMs -= 5 * 3_600_000;
  harness.run(3000);
  assert.equal(harness.groupOf().state.hotBytes, 100);
  harness.run(62_000);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.whole('s').toString(), body(100));
});

test('one job per group at a time, and no more uploads than the bound', () => {
  const harness = new ColdHarness({}, [0, 1, 2]);
  for (const group of [0, 1, 2]) {
    for (const stream of ['a', 'b']) harness.create(group, `${stream}${group}`, { body: body(6000) });
  }
  harness.turn();
  for (let i = 0; i < 100; i++) harness.turn(25);
  assert.equal(harness.port.count('put'), 2, 'two uploads at most');
  assert.equal(new Set(harness.port.uploaded.map((key) => key.slice(0, 5))).size, 2, 'of two groups');
  harness.port.answer();
  harness.turn(25);
  harness.turn(25);
  harness.turn(25);
  assert.equal(harness.port.count('put'), 2);
  harness.run(1000);
  for (const group of [0, 1, 2]) {
    assert.equal(harness.groupOf(group).state.hotBytes, 0);
    for (const stream of ['a', 'b']) assert.equal(harness.whole(`${stream}${group}`, group).length, 6000);
  }
});

test('a stream that was removed during the upload leaves an object behind that is deleted', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  while (harness.port.count('put') === 0) harness.turn(25);
  harness.remove(0, 's');
  harness.create(0, 's', { body: body(50, 'n') });
  harness.turn();
  harness.port.answer();
  harness.turn();
  harness.turn();
  assert.equal(harness.status().counters['cold_flush_stale'], 1);
  assert.equal(harness.groupOf().state.cold.gcLength, 1);
  assert.equal(harness.whole('s').toString(), body(50, 'n'));
  harness.run(6000);
  assert.equal(harness.port.objects.size, 1, 'that of the new stream');
  assert.equal(harness.whole('s').toString(), body(50, 'n'));
});

test('a group that lost its leadership meanwhile does not publish, also not when it leads again', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  while (harness.port.count('put') === 0) harness.turn(25);
  const { raft } = harness.groupOf();
  const { term } = raft;
  harness.loseLeadership();
  harness.turn();
  raft.campaign();
  harness.turn();
  assert(harness.groupOf().leads && raft.term > term);
  harness.port.answer();
  for (let i = 0; i < 5; i++) harness.turn();
  assert.equal(harness.groupOf().state.cold.objects, 0, 'nothing refers to the object of the earlier term');
  assert.equal(harness.status().counters['cold_flush_forgotten'], 1);
  harness.run(1000);
  assert.equal(harness.port.uploaded.length, 2);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.whole('s').toString(), body(100));
});

test('nor does a group that lost its leadership and got it back while the disk was full, in one turn', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  while (harness.port.count('put') === 0) harness.turn(25);
  harness.storage.isFull = true;
  harness.append(0, 's', body(100));
  harness.turn();
  assert(harness.shard.full);
  harness.loseLeadership();
  const { raft } = harness.groupOf();
  raft.campaign();
  harness.port.answer();
  harness.storage.isFull = false;
  for (let i = 0; i < 5; i++) harness.turn(150);
  assert(harness.groupOf().leads);
  assert.equal(harness.status().counters['cold_flush_forgotten'], 1);
  harness.run(5000);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(harness.whole('s').toString().slice(0, 100), body(100));
});

test('a process that dies between upload and command loses nothing, and its successor uses other keys', () => {
  const harness = started();
  harness.append(0, 's', body(100));
  harness.turn();
  while (harness.port.count('put') === 0) harness.turn(25);
  harness.port.answer();
  harness.restartWith('00000000000000bb');
  assert.equal(harness.whole('s').toString(), body(100));
  harness.run(2000);
  assert.equal(harness.port.objects.size, 2);
  assert.match(harness.port.uploaded[1] as string, /^g0000-00000000000000aa\/.*\/00000000000000bb-000000000001$/);
  assert.equal(harness.whole('s').toString(), body(100));
  harness.restartWith('00000000000000cc');
  harness.append(0, 's', body(10, 'z'));
  harness.run(2000);
  assert.match(harness.port.uploaded[2] as string, /^g0000-00000000000000aa\/.*\/00000000000000cc-000000000001$/);
  assert.equal(harness.whole('s').toString(), body(100) + body(10, 'z'));
});

test('an operator moves one stream now', () => {
  const harness = started({ flushIntervalMs: 3_600_000, flushBytes: 1e9 });
  harness.append(0, 's', body(100));
  harness.create(0, 't', { body: body(100) });
  harness.turn();
  const answered = (slot: number): [CallOutcome, CallResult['body']] => {
    let replies = harness.turn();
    for (let i = 0; i < 5; i++) {
      harness.port.answer();
      replies = [...replies, ...harness.turn()];
    }
    const reply = find(replies, slot);
    const { outcome, body: said } = QUERIES.flushStream.result.read(reply);
    return [outcome, said];
  };
  const [outcome, text] = answered(harness.flushCall(0, 's'));
  assert.equal(outcome, 'done');
  assert.deepEqual(text, {
    hot_start_offset: 100,
    group_commit_index: harness.groupOf().state.appliedIndex,
  });
  assert.equal(harness.groupOf().state.hotBytes, 100, 'the other stream stays');
  assert.deepEqual(answered(harness.flushCall(0, 's')), ['nothing-to-do', '']);
  assert.deepEqual(answered(harness.flushCall(0, 't', 101)), ['nothing-to-do', '']);
  assert.deepEqual(answered(harness.flushCall(0, 'u')), ['not-found', 'stream not found\n']);
  const failing = harness.flushCall(0, 't');
  harness.turn();
  harness.port.answer('error');
  assert.deepEqual(answered(failing), [
    'store-failed',
    'the cold store did not take the object from this node: the store said no\n',
  ]);
  const group = harness.groupOf();
  const unconfirmed = harness.flushCall(0, 't');
  harness.turn();
  harness.port.answer();
  group.submitOwn = (...command) => {
    Reflect.deleteProperty(group, 'submitOwn');
    group.submitOwn(...command);
    group.failWaiting();
  };
  const [again, why] = answered(unconfirmed);
  assert.equal(again, 'retry');
  assert(typeof why === 'string' && why.startsWith('the cold store took the object'), JSON.stringify(why));
  const leaderless = harness.flushCall(0, 't');
  harness.turn();
  harness.loseLeadership();
  const [conflict, reason] = answered(leaderless);
  assert.equal(conflict, 'refused');
  assert.equal(typeof reason === 'object' && reason['reason'], 'not leader');
});

test('a node without a cold store says so', () => {
  const harness = started();
  harness.more = {};
  harness.restart();
  const slot = harness.flushCall(0, 's');
  const reply = find(harness.turn(), slot);
  const { outcome, body: said } = QUERIES.flushStream.result.read(reply);
  assert.equal(outcome, 'refused');
  assert(typeof said === 'string' && said.startsWith('this node has no cold store'));
});
