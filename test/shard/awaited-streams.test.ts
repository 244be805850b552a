// Topics of streams that are not there: one event when the stream is made, and nothing is left of those that gave up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { State } from '../../src/stream/core/state.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { Harness, code, find, tails } from './harness.ts';

const TOPIC = 77;

/** Topic 77 of group 0 awaits the stream `s`. */
function awaiting(): Harness {
  const harness = new Harness([0, 1]);
  const slot = harness.awaitStream(0, 's', TOPIC);
  assert.equal(code(find(harness.turn(), slot)), 'STREAM_NOT_FOUND');
  return harness;
}

const size = (harness: Harness): number | undefined => harness.shard.groups[0]?.watchers.size;

test('the topic is told once, when the stream is made, and may follow it then', () => {
  const harness = awaiting();
  harness.create(0, 'other');
  harness.create(1, 's');
  assert.deepEqual(tails(harness.turn(), TOPIC), []);
  harness.create(0, 's', { type: 'text/plain', body: 'first;' });
  harness.append(0, 's', 'second;');
  const [event, ...more] = tails(harness.turn(), TOPIC);
  assert(event !== undefined && more.length === 0);
  assert.equal(code(event), 'STREAM_NOT_FOUND', 'look again');
  assert.equal(size(harness), 0);
  const slot = harness.awaitStream(0, 's', TOPIC);
  const found = find(harness.turn(), slot);
  assert.deepEqual([code(found), found.nextOffset], ['OK', 13]);
  harness.append(0, 's', 'third;');
  assert.equal(tails(harness.turn(), TOPIC)[0]?.nextOffset, 19);
});

test('a stream that is made and removed in one turn is told, and awaited again', () => {
  const harness = awaiting();
  harness.create(0, 's');
  harness.remove(0, 's');
  assert.equal(tails(harness.turn(), TOPIC).length, 1);
  const slot = harness.awaitStream(0, 's', TOPIC);
  assert.equal(code(find(harness.turn(), slot)), 'STREAM_NOT_FOUND');
  harness.create(0, 's');
  assert.equal(tails(harness.turn(), TOPIC).length, 1);
});

test('a topic that ends awaits nothing, and a late end takes nothing from the topic after it', () => {
  const harness = awaiting();
  assert.equal(size(harness), 1);
  harness.unwatch(0, TOPIC);
  harness.turn();
  assert.equal(size(harness), 0);
  harness.awaitStream(0, 's', 78);
  harness.awaitStream(0, 's', 79);
  harness.turn();
  assert.equal(size(harness), 1, 'one topic for each stream');
  harness.unwatch(0, 78);
  harness.create(0, 's');
  const replies = harness.turn();
  assert.deepEqual([tails(replies, 78).length, tails(replies, 79).length], [0, 1]);
});

test('a state that takes the place of another one, or stops, makes all that wait look again', () => {
  const harness = awaiting();
  const group = harness.shard.groups[0] ?? assert.fail('there is one');
  const other = new State(0, new SortedMapTx());
  other.enter(group.raft.commitIndex + 1, 1);
  group.watchers.replace(other, other.appliedIndex);
  assert.equal(tails(harness.turn(), TOPIC).length, 1);
  group.watchers.refuse('ROW_DAMAGED');
  const [event] = tails(harness.turn(), TOPIC);
  assert.equal(event === undefined ? '' : code(event), 'ROW_DAMAGED');
});

test('a read without the flag awaits nothing', () => {
  const harness = new Harness([0]);
  harness.read(0, 's', TOPIC);
  harness.turn();
  assert.equal(size(harness), 0);
});
