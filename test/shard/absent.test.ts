// Nothing is said not to be there before the leader has confirmed it and this node has applied as much.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READ_NOW, READ_RECORD } from '../../src/protocol/read-fields.ts';
import { ALL_GROUPS, type Request, requestFor } from '../../src/protocol/request.ts';
import { code, find, text } from './harness.ts';

import { CREATE, Follower, HELLO, empty, entry } from './follower.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

/** Everything that could say that something is not there. */
const STREAM = { bucket: 'b', stream: 's' };
const SNAPSHOT = { ...STREAM, offset: 0, from: 10, maxBytes: 0 };
const ABSENCES: Readonly<Record<string, Request>> = {
  'a read': requestFor(QUERIES.read, 0, STREAM),
  'a read at the tail': requestFor(QUERIES.read, 0, { ...STREAM, mode: READ_NOW }),
  'a read of a record': requestFor(QUERIES.read, 0, { ...STREAM, mode: READ_RECORD }),
  'the start of a live read': requestFor(QUERIES.read, 0, { ...STREAM, topic: 7 }),
  HEAD: requestFor(QUERIES.head, 0, STREAM),
  attributes: requestFor(QUERIES.getAttributes, 0, STREAM),
  'the latest snapshot': requestFor(QUERIES.snapshot, 0, { ...SNAPSHOT, choice: 'latest' }),
  'a snapshot': requestFor(QUERIES.snapshot, 0, { ...SNAPSHOT, choice: 'at' }),
  'a bootstrap': requestFor(QUERIES.snapshot, 0, { ...SNAPSHOT, choice: 'any' }),
  'a bucket': requestFor(QUERIES.bucket, ALL_GROUPS, { bucket: 'b' }),
  'a listing': requestFor(QUERIES.list, ALL_GROUPS, { bucket: 'b', prefix: '', after: '', limit: 10 }),
};

for (const [what, request] of Object.entries(ABSENCES)) {
  const asked = (): { readonly node: Follower; readonly slot: number } => {
    const node = new Follower();
    node.append(1, [0, 0], [empty(1, 1)], 1);
    node.turn();
    const slot = node.request(request);
    assert.deepEqual(node.turn(), []);
    return { node, slot };
  };

  test(`${what}: without a leader's answer it is eventually refused, not answered`, () => {
    const { node, slot } = asked();
    for (let i = 0; i < 49; i++) assert.deepEqual(node.turn(100), []);
    assert(node.questions().length > 5, 'it asks again and again');
    assert.equal(code(find(node.turn(200), slot)), 'UNCONFIRMED');
  });

  test(`${what}: as long as this node has not applied what the leader said, it is refused in the end`, () => {
    const { node, slot } = asked();
    const [question = 0] = node.questions();
    node.tell(question, 3);
    node.append(1, [1, 1], [empty(2, 1)], 2);
    for (let i = 0; i < 49; i++) assert.deepEqual(node.turn(100), []);
    assert.equal(code(find(node.turn(200), slot)), 'NOT_APPLIED');
  });

  test(`${what}: answered as soon as this node has applied what the leader said`, () => {
    const { node, slot } = asked();
    const [question = 0] = node.questions();
    node.tell(question, 3);
    node.append(1, [1, 1], [empty(2, 1), empty(3, 1)], 3);
    const reply = find(node.turn(), slot);
    assert(!['UNCONFIRMED', 'NOT_APPLIED'].includes(code(reply)), code(reply));
  });

  test(`${what}: while the disk is full nothing can be applied, so it is refused in the end`, () => {
    const { node, slot } = asked();
    node.storage.isFull = true;
    node.append(1, [1, 1], [entry(2, 1, COMMANDS.create.number)], 2);
    for (let i = 0; i < 49; i++) assert.deepEqual(node.turn(100), []);
    assert.match(code(find(node.turn(200), slot)), /UNCONFIRMED|NOT_APPLIED/);
  });
}

test('what is there is served meanwhile', () => {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  const missing = node.ask(QUERIES.read.number, 0, 9);
  const there = node.ask(QUERIES.read.number);
  assert.equal(text(find(node.turn(), there)), 'hello');
  for (let i = 0; i < 49; i++) node.turn(100);
  assert.equal(code(find(node.turn(200), missing)), 'UNCONFIRMED');
});

test('a position beyond the tail is refused as such once the leader has confirmed it', () => {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE], 1);
  node.turn();
  const slot = node.ask(QUERIES.read.number, 0, 3);
  node.turn();
  node.tell(node.questions()[0] ?? 0, 1);
  assert.equal(code(find(node.turn(), slot)), 'OFFSET_OUT_OF_RANGE');
});

test('queries for what is not there that find no room to wait are refused, not answered', () => {
  const node = new Follower();
  node.append(1, [0, 0], [empty(1, 1)], 1);
  node.turn();
  for (let i = 0; i < 60_000; i++) node.ask(QUERIES.read.number);
  const codes = new Set(node.turn().map(code));
  assert.deepEqual([...codes], ['UNCONFIRMED']);
});
