import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TAIL_EVENT_BYTES_MAX } from '../../src/base/limits.ts';
import {
  REPLY_BODY_OMITTED,
  REPLY_CLOSED,
  REPLY_DELETED,
  REPLY_TAIL,
  REPLY_UP_TO_DATE,
} from '../../src/protocol/reply.ts';
import { Harness, code, find, tails } from './harness.ts';

const TOPIC = 77;

function watched(type = 'text/plain'): Harness {
  const harness = new Harness([0, 1]);
  harness.create(0, 's', { type, body: type === 'application/json' ? '[0]' : 'start;' });
  harness.turn();
  const slot = harness.read(0, 's', TOPIC);
  assert.equal(code(find(harness.turn(), slot)), 'OK');
  return harness;
}

const body = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString();

test('a burst of appends is one event per stream and turn, in order', () => {
  const harness = watched();
  let seen = 'start;';
  for (let turn = 0; turn < 5; turn++) {
    const slots = ['a', 'b', 'c'].map((letter) => harness.append(0, 's', `${turn}${letter};`));
    const replies = harness.turn();
    const [event, ...more] = tails(replies, TOPIC);
    assert(event !== undefined && more.length === 0);
    assert.equal(event.startOffset, seen.length);
    assert.equal(body(event.body), `${turn}a;${turn}b;${turn}c;`);
    seen += body(event.body);
    assert.equal(event.nextOffset, seen.length);
    assert(event.has(REPLY_UP_TO_DATE));
    // A reader is told no later than in the same turn what a writer was told.
    for (const slot of slots) assert(replies.indexOf(find(replies, slot)) < replies.indexOf(event));
  }
});

test('streams without watchers cause no events', () => {
  const harness = watched();
  harness.create(1, 's');
  harness.create(0, 'other');
  harness.append(1, 's', 'x');
  harness.append(0, 'other', 'x');
  assert(!harness.turn().some((reply) => reply.kind === REPLY_TAIL));
});

test('an event of a JSON stream is an array of the new records', () => {
  const harness = watched('application/json');
  harness.append(0, 's', ' [1, {"a": 2}]', { type: 'application/json' });
  harness.append(0, 's', '3', { type: 'application/json' });
  const [event] = tails(harness.turn(), TOPIC);
  assert.equal(body(event?.body), '[1,{"a":2},3]');
  assert.deepEqual([event?.recordFirst, event?.recordStart, event?.recordNext], [0, 1, 4]);
});

test('events above the limit carry no bytes and say so', () => {
  const harness = watched();
  harness.append(0, 's', 'x'.repeat(TAIL_EVENT_BYTES_MAX));
  const [whole] = tails(harness.turn(), TOPIC);
  assert.equal(whole?.body?.length, TAIL_EVENT_BYTES_MAX);
  assert(!whole?.has(REPLY_BODY_OMITTED));
  harness.append(0, 's', 'x'.repeat(TAIL_EVENT_BYTES_MAX + 1));
  const [event] = tails(harness.turn(), TOPIC);
  assert(event !== undefined && event.has(REPLY_BODY_OMITTED));
  assert.equal(event.body, undefined);
  assert.equal(event.nextOffset, 'start;'.length + 2 * TAIL_EVENT_BYTES_MAX + 1);
});

test('closure is told with the last bytes and ends the topic', () => {
  const harness = watched();
  harness.append(0, 's', 'last;');
  harness.close(0, 's');
  const events = tails(harness.turn(), TOPIC);
  assert.equal(events.length, 1);
  assert.equal(body(events[0]?.body), 'last;');
  assert(events[0]?.has(REPLY_CLOSED) && events[0].has(REPLY_UP_TO_DATE));
  assert.equal(harness.shard.groups[0]?.watchers.size, 0);
  harness.remove(0, 's');
  assert.deepEqual(tails(harness.turn(), TOPIC), [], 'the topic was over already');
});

test('a close alone is an event without bytes', () => {
  const harness = watched();
  harness.close(0, 's');
  const [event] = tails(harness.turn(), TOPIC);
  assert(event !== undefined && event.has(REPLY_CLOSED) && !event.has(REPLY_BODY_OMITTED));
  assert.equal(event.body, undefined);
});

test('deletion is told once, and a stream of the same name is another stream', () => {
  const harness = watched();
  harness.append(0, 's', 'lost;');
  harness.remove(0, 's');
  harness.create(0, 's');
  harness.append(0, 's', 'new;');
  const events = tails(harness.turn(), TOPIC);
  assert.equal(events.length, 1);
  assert(events[0]?.has(REPLY_DELETED));
  harness.append(0, 's', 'more;');
  assert.deepEqual(tails(harness.turn(), TOPIC), []);
});

test('expiry ends the topic like a deletion', () => {
  const harness = new Harness([0]);
  harness.create(0, 's', { expires: harness.nowMs + 3000 });
  harness.turn();
  harness.read(0, 's', TOPIC);
  harness.turn();
  const replies = [];
  for (let i = 0; i < 8; i++) replies.push(...harness.turn(1000));
  const events = tails(replies, TOPIC);
  assert.equal(events.length, 1);
  assert(events[0]?.has(REPLY_DELETED));
});

test('unwatch is the end of the events', () => {
  const harness = watched();
  harness.unwatch(0, TOPIC);
  harness.append(0, 's', 'x');
  assert.deepEqual(tails(harness.turn(), TOPIC), []);
  harness.unwatch(0, TOPIC);
  harness.turn();
  assert.equal(harness.shard.groups[0]?.watchers.size, 0);
});

test('a read that is refused or finds the stream closed watches nothing', () => {
  const harness = watched();
  harness.read(0, 'absent', 78);
  harness.read(0, 's', 79, 1000);
  harness.create(0, 'closed', { close: true });
  harness.turn();
  harness.read(0, 'closed', 80);
  harness.turn();
  assert.equal(harness.shard.groups[0]?.watchers.size, 1);
});

test('the read that subscribes and the first event leave no gap', () => {
  const harness = watched();
  const slot = harness.read(0, 's', 90);
  harness.append(0, 's', 'x;');
  const replies = harness.turn();
  const read = find(replies, slot);
  const [event] = tails(replies, 90);
  assert.equal(read.nextOffset, 'start;'.length);
  assert.equal(event?.startOffset, read.nextOffset);
});
