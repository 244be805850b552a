// Forks in the state machine: each step, its repetition, what it is refused for, and what is left when everything is
// over.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../../src/base/errors.ts';
import { pendingNotifications, pinChecks } from '../../../src/stream/forks/pin.ts';
import { listStreams } from '../../../src/stream/operations/list.ts';
import { encodePurge, encodeQuota } from '../../../src/protocol/bucket-command.ts';
import { type CommandFields } from '../../../src/protocol/command.ts';
import { encodeForkBegin, encodeForkData, encodeForkPin } from '../../../src/protocol/fork-command.ts';
import { REPLY_CLOSED, REPLY_CREATED, type Reply } from '../../../src/protocol/reply.ts';
import { Group } from './commands.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';
import { FORK_GONE } from '../../../src/protocol/fork-gone.ts';

const TEXT = 'text/plain';
const SILENCE_MS = 15_000;
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
const key = (name: string): string => name.replace('/', '\0');
const code = (reply: { readonly code: number }): string => errorCode(reply.code);

/** A group in which a stream a/s holds `hello ` and `world`. */
function withSource(): Group {
  const group = new Group();
  const type = { contentType: TEXT };
  assert.equal(group.code(COMMANDS.create.number, 'a/s', { ...type, payload: bytes('hello ') }), 'OK');
  assert.equal(group.code(COMMANDS.append.number, 'a/s', { ...type, payload: bytes('world') }), 'OK');
  return group;
}

interface Ask {
  readonly from?: string;
  readonly offset?: number;
  readonly sub?: number;
  readonly more?: Partial<CommandFields>;
}

const begin = (
  group: Group,
  name: string,
  token: number,
  { from = 'a/s', offset = -1, sub = 0, more = {} }: Ask = {},
) =>
  group.do(COMMANDS.forkBegin.number, name, {
    forkToken: token,
    payload: encodeForkBegin(key(from), offset, sub),
    ...more,
  });
const pin = (group: Group, name: string, token: number, { from = 'a/s', offset = -1, more = {} }: Ask = {}) =>
  group.do(COMMANDS.forkPin.number, from, { forkToken: token, payload: encodeForkPin(key(name), offset), ...more });

interface Piece {
  readonly anchor?: number;
  readonly at?: number;
  readonly record?: number;
  readonly ends: readonly number[];
  readonly text: string;
}

const data = (group: Group, name: string, token: number, { anchor = 11, at = 0, record = 0, ends, text }: Piece) =>
  group.do(COMMANDS.forkData.number, name, {
    forkToken: token,
    contentType: TEXT,
    payload: encodeForkData({ anchor, at, record, ends, bytes: bytes(text) }),
  });
const end = (group: Group, name: string, token: number, more: Partial<CommandFields> = {}) =>
  group.do(COMMANDS.forkEnd.number, name, { forkToken: token, contentType: TEXT, ...more });

const lifetime = (
  reply: Reply,
  { result } = COMMANDS.forkEnd as Pick<typeof COMMANDS.forkEnd | typeof COMMANDS.forkPin, 'result'>,
) => [result.read(reply).ttlSeconds, result.read(reply).expiresAtMs];

const WHOLE: Piece = { ends: [6, 11], text: 'hello world' };

/** All steps. */
function fork(group: Group, name: string, token: number, ask: Ask = {}): void {
  assert.equal(code(begin(group, name, token, ask)), 'OK');
  assert.equal(code(pin(group, name, token, ask)), 'OK');
  assert.equal(code(data(group, name, token, WHOLE)), 'OK');
  assert.equal(code(end(group, name, token)), 'OK');
}

const streams = (group: Group): string[] =>
  listStreams(group.state, bytes('a'), bytes(''), bytes(''), 10, group.nowMs).map(({ stream_id: id }) => id);
const bucket = (group: Group) => group.state.buckets.of(group.state.tx, bytes('a'), 0, 1);

test('a fork is created in steps, and is invisible until it is complete', () => {
  const group = withSource();
  assert(begin(group, 'a/f', 7).has(REPLY_CREATED));
  group.restart();
  const pinned = pin(group, 'a/f', 7);
  assert.deepEqual(
    [pinned.contentType, pinned.startOffset, pinned.nextOffset, COMMANDS.forkPin.result.read(pinned).incarnation],
    [TEXT, 0, 11, 1],
  );
  assert.equal(code(data(group, 'a/f', 7, { ends: [6], text: 'hello ' })), 'OK');
  assert.equal(code(data(group, 'a/f', 7, { at: 6, record: 1, ends: [5], text: 'world' })), 'OK');
  group.restart();
  assert.deepEqual(streams(group), ['s']);
  for (const kind of [COMMANDS.append.number, COMMANDS.deleteStream.number]) {
    assert.equal(group.code(kind, 'a/f', { contentType: TEXT, payload: bytes('x') }), 'STREAM_NOT_FOUND');
  }
  assert.equal(group.code(COMMANDS.create.number, 'a/f'), 'FORK_FORMING');
  assert.equal(code(begin(group, 'a/f', 8)), 'FORK_FORMING');
  assert.equal(code(pin(group, 'a/g', 9, { from: 'a/f' })), 'FORK_SOURCE_NOT_FOUND', 'nor can it be forked');
  const whole = end(group, 'a/f', 7, { payload: bytes('!'), close: true });
  assert(whole.has(REPLY_CREATED) && whole.has(REPLY_CLOSED));
  assert.equal(whole.nextOffset, 12);
  assert.deepEqual(lifetime(whole), [-1, -1]);
  assert.deepEqual(streams(group), ['f', 's']);
  assert.equal(group.tags(), 'FPbdfhm');
  const { streamCount, retainedBytes, appendBytes, writeUnits } = bucket(group);
  // Inherited bytes are retained, but not metered as appended.
  assert.deepEqual([streamCount, retainedBytes, appendBytes, writeUnits], [2, 23, 12, 3]);
  assert.equal(group.state.hotBytes, 23);
});

test('each step may be repeated, and another maker is turned away', () => {
  const group = withSource();
  for (let i = 0; i < 2; i++) assert(begin(group, 'a/f', 7).has(REPLY_CREATED));
  for (let i = 0; i < 2; i++) assert.equal(code(pin(group, 'a/f', 7)), 'OK');
  const first = { ends: [6], text: 'hello ' };
  const second = { at: 6, record: 1, ends: [5], text: 'world' };
  assert.equal(code(end(group, 'a/f', 7)), 'FORK_LOST', 'before it has a beginning');
  for (const piece of [first, first, second, first, second]) assert.equal(code(data(group, 'a/f', 7, piece)), 'OK');
  assert.equal(code(data(group, 'a/f', 8, { at: 11, record: 2, ends: [1], text: 'x' })), 'FORK_LOST');
  assert.equal(code(data(group, 'a/f', 7, { at: 12, record: 2, ends: [1], text: 'x' })), 'FORK_LOST', 'a gap');
  assert.equal(code(end(group, 'a/f', 8)), 'FORK_LOST');
  assert.equal(group.code(COMMANDS.forkAbort.number, 'a/f', { forkToken: 8 }), 'OK');
  for (let i = 0; i < 2; i++) {
    const reply = end(group, 'a/f', 7, { payload: bytes('!') });
    assert(reply.has(REPLY_CREATED));
    assert.equal(reply.nextOffset, 12);
  }
  assert.equal(code(data(group, 'a/f', 7, { at: 12, record: 3, ends: [1], text: 'x' })), 'FORK_LOST', 'it is whole');
  assert.equal(group.code(COMMANDS.forkAbort.number, 'a/f', { forkToken: 7 }), 'OK');
  assert.deepEqual(streams(group), ['f', 's'], 'a fork that is whole is not given up');
});

test('the same PUT again is told from another one', () => {
  const group = withSource();
  const ask: Ask = { offset: 6, sub: 2, more: { ttlSeconds: 60 } };
  assert(begin(group, 'a/f', 7, ask).has(REPLY_CREATED));
  pin(group, 'a/f', 7, ask);
  data(group, 'a/f', 7, { anchor: 6, ends: [6, 8], text: 'hello wo' });
  end(group, 'a/f', 7, { ttlSeconds: 60 });
  const again = begin(group, 'a/f', 8, ask);
  assert.equal(code(again), 'OK');
  assert(!again.has(REPLY_CREATED));
  assert.deepEqual([again.nextOffset, lifetime(again)], [8, [60, -1]]);
  assert.equal(code(begin(group, 'a/f', 8, { ...ask, offset: -1 })), 'OK', 'an offset that is left out');
  const others: Ask[] = [
    { ...ask, offset: 5 },
    { ...ask, sub: 0 },
    { ...ask, from: 'a/other' },
    { ...ask, more: {} },
    { ...ask, more: { ttlSeconds: 61 } },
    { ...ask, more: { ...ask.more, close: true } },
    { ...ask, more: { ...ask.more, contentType: 'text/html' } },
    { ...ask, more: { ...ask.more, attributes: bytes('{"title":"x"}') } },
  ];
  for (const other of others)
    assert.equal(code(begin(group, 'a/f', 8, other)), 'CREATE_CONFLICT', JSON.stringify(other));
  assert.equal(
    group.code(COMMANDS.create.number, 'a/f', { contentType: TEXT, ttlSeconds: 60 }),
    'CREATE_CONFLICT',
    'no fork',
  );
  assert.equal(code(begin(group, 'a/s', 8, { more: { contentType: TEXT } })), 'CREATE_CONFLICT', 'not a fork');
});

test('a branch point that the source does not have is refused', () => {
  const group = withSource();
  const refusals: readonly (readonly [Ask, string])[] = [
    [{ from: 'a/none' }, 'FORK_SOURCE_NOT_FOUND'],
    [{ offset: 12 }, 'FORK_BEYOND_TAIL'],
    [{ more: { contentType: 'text/html' } }, 'FORK_TYPE_MISMATCH'],
  ];
  for (const [ask, refusal] of refusals) assert.equal(code(pin(group, 'a/f', 7, ask)), refusal);
  assert.equal(group.tags().includes('P'), false, 'and no refusal leaves a trace');
  assert.equal(code(pin(group, 'a/f', 7, { more: { contentType: 'TEXT/plain' } })), 'OK');
});

test('a source that is removed keeps its name while forks of it live, and its source after it', () => {
  const group = withSource();
  fork(group, 'a/f', 7);
  fork(group, 'a/g', 8, { from: 'a/f' });
  fork(group, 'a/h', 9, { from: 'a/f' });
  assert.equal(FORK_GONE.read(group.do(COMMANDS.deleteStream.number, 'a/s')), undefined);
  assert.equal(
    FORK_GONE.read(group.do(COMMANDS.deleteStream.number, 'a/f')),
    undefined,
    'a fork that is a source itself notifies no one yet',
  );
  group.restart();
  for (const name of ['a/s', 'a/f']) {
    assert.equal(group.code(COMMANDS.deleteStream.number, name), 'STREAM_DELETED');
    assert.equal(
      group.code(COMMANDS.append.number, name, { contentType: TEXT, payload: bytes('x') }),
      'STREAM_DELETED',
    );
    assert.equal(group.code(COMMANDS.create.number, name), 'NAME_HELD');
    assert.equal(code(begin(group, name, 10, { from: 'a/g' })), 'NAME_HELD');
    assert.equal(code(pin(group, 'a/i', 10, { from: name })), 'FORK_SOURCE_DELETED');
  }
  assert.deepEqual(streams(group), ['g', 'h']);
  const { streamCount, retainedBytes } = bucket(group);
  assert.deepEqual([streamCount, retainedBytes], [2, 22], 'its bytes are given back');
  const told = group.do(COMMANDS.deleteStream.number, 'a/g');
  assert.deepEqual(FORK_GONE.read(told), { token: 8, source: 'a\0f' });
  assert.deepEqual(
    pendingNotifications(group.state, 9).map(({ token }) => token),
    [8],
  );
  for (let i = 0; i < 2; i++)
    assert.equal(
      FORK_GONE.read(group.do(COMMANDS.forkUnpin.number, 'a/f', { forkToken: 8 })),
      undefined,
      'one is left',
    );
  group.do(COMMANDS.forkUnpinned.number, 'a/f', { forkToken: 8 });
  assert.deepEqual(pendingNotifications(group.state, 9), []);
  assert.equal(FORK_GONE.read(group.do(COMMANDS.deleteStream.number, 'a/h'))?.token, 9);
  const last = group.do(COMMANDS.forkUnpin.number, 'a/f', { forkToken: 9 });
  assert.deepEqual(FORK_GONE.read(last), { token: 7, source: 'a\0s' }, 'the cascade');
  assert.equal(group.code(COMMANDS.deleteStream.number, 'a/f'), 'STREAM_NOT_FOUND');
  assert.equal(group.code(COMMANDS.deleteStream.number, 'a/s'), 'STREAM_DELETED');
  assert.equal(FORK_GONE.read(group.do(COMMANDS.forkUnpin.number, 'a/s', { forkToken: 7 })), undefined);
  assert.equal(group.code(COMMANDS.create.number, 'a/s'), 'OK');
  for (const token of [7, 9]) group.do(COMMANDS.forkUnpinned.number, 'a/s', { forkToken: token });
  group.do(COMMANDS.deleteStream.number, 'a/s');
  assert.equal(group.tags(), 'bm', 'nothing is left');
  assert.equal(group.code(COMMANDS.forkUnpin.number, 'a/none', { forkToken: 99 }), 'OK', 'what is not known is done');
});

test('a fork whose maker falls silent is given up, or taken over', () => {
  const group = withSource();
  begin(group, 'a/f', 7);
  pin(group, 'a/f', 7);
  data(group, 'a/f', 7, { ends: [6], text: 'hello ' });
  group.nowMs += SILENCE_MS - 1;
  group.do(COMMANDS.expire.number, '');
  assert.equal(code(begin(group, 'a/f', 8)), 'FORK_FORMING');
  // Each piece, also an empty one, says that the maker lives.
  assert.equal(code(data(group, 'a/f', 7, { at: 6, record: 1, ends: [], text: '' })), 'OK');
  group.nowMs += SILENCE_MS - 1;
  group.do(COMMANDS.expire.number, '');
  assert.equal(code(begin(group, 'a/f', 8)), 'FORK_FORMING');
  group.nowMs += 1;
  assert(begin(group, 'a/f', 8).has(REPLY_CREATED), 'taken over');
  assert.deepEqual(
    pendingNotifications(group.state, 9).map(({ token }) => token),
    [7],
  );
  assert.equal(code(data(group, 'a/f', 7, { at: 6, record: 1, ends: [5], text: 'world' })), 'FORK_LOST');
  group.nowMs += SILENCE_MS;
  group.do(COMMANDS.expire.number, '');
  assert.deepEqual(
    pendingNotifications(group.state, 9).map(({ token }) => token),
    [7, 8],
  );
  assert.equal(bucket(group).streamCount, 1);
  assert.equal(group.code(COMMANDS.create.number, 'a/f'), 'OK');
});

test('lifetimes: the source of an expired fork is notified, an expired source keeps its name', () => {
  const group = withSource();
  fork(group, 'a/f', 7);
  begin(group, 'a/g', 8);
  pin(group, 'a/g', 8);
  data(group, 'a/g', 8, WHOLE);
  assert.deepEqual(lifetime(end(group, 'a/g', 8, { ttlSeconds: 5 })), [5, -1]);
  group.nowMs += 5000;
  group.do(COMMANDS.expire.number, '');
  assert.deepEqual(
    pendingNotifications(group.state, 9).map(({ token }) => token),
    [8],
  );
  assert.deepEqual(streams(group), ['f', 's']);

  const short = new Group();
  short.code(COMMANDS.create.number, 'a/s', { contentType: TEXT, ttlSeconds: 5, payload: bytes('hello world') });
  begin(short, 'a/f', 7);
  const pinned = pin(short, 'a/f', 7);
  assert.deepEqual(lifetime(pinned, COMMANDS.forkPin), [5, -1]);
  data(short, 'a/f', 7, WHOLE);
  end(short, 'a/f', 7);
  short.nowMs += 5000;
  assert.equal(code(pin(short, 'a/g', 8)), 'FORK_SOURCE_NOT_FOUND');
  assert.equal(short.code(COMMANDS.append.number, 'a/s', { contentType: TEXT, payload: bytes('x') }), 'STREAM_DELETED');
  assert.equal(short.code(COMMANDS.create.number, 'a/s'), 'NAME_HELD', 'also before the sweep');
  assert.equal(short.code(COMMANDS.deleteStream.number, 'a/s'), 'STREAM_DELETED');
});

test('inherited bytes count towards quotas', () => {
  const group = withSource();
  group.do(COMMANDS.quota.number, 'a', { payload: encodeQuota({ streamsMax: 2, retainedBytesMax: 25 }) });
  begin(group, 'a/f', 7);
  assert.equal(code(begin(group, 'a/g', 8)), 'QUOTA_EXCEEDED', 'one in the making counts');
  pin(group, 'a/f', 7);
  data(group, 'a/f', 7, WHOLE);
  assert.equal(code(end(group, 'a/f', 7, { payload: bytes('1234') })), 'QUOTA_EXCEEDED');
  group.do(COMMANDS.quota.number, 'a', { payload: encodeQuota({ streamsMax: 3, retainedBytesMax: 25 }) });
  begin(group, 'a/g', 8);
  assert.equal(code(data(group, 'a/g', 8, WHOLE)), 'QUOTA_EXCEEDED');
  const undone = group.do(COMMANDS.forkAbort.number, 'a/g', { forkToken: 8 });
  assert.equal(FORK_GONE.read(undone)?.token, 8);
  assert.equal(bucket(group).streamCount, 2);
});

test('a purge takes forks, sources and what is left of them, and tells other buckets', () => {
  const group = withSource();
  group.code(COMMANDS.create.number, 'b/s', { contentType: TEXT, payload: bytes('hello world') });
  fork(group, 'a/f', 7);
  fork(group, 'b/f', 8, { from: 'a/s' });
  fork(group, 'a/g', 9, { from: 'b/s' });
  begin(group, 'a/half', 10, { from: 'b/s' });
  group.do(COMMANDS.deleteStream.number, 'a/s');
  assert.equal(group.code(COMMANDS.create.number, 'a/s'), 'NAME_HELD');
  const reply = group.do(COMMANDS.purge.number, 'a', { payload: encodePurge('') });
  const { streamsRemoved, hasMore } = COMMANDS.purge.result.read(reply);
  assert.deepEqual([code(reply), streamsRemoved, hasMore], ['OK', 3, false]);
  assert.equal(group.code(COMMANDS.create.number, 'a/s'), 'OK', 'the name is free');
  assert.deepEqual(
    pendingNotifications(group.state, 9).map(({ token }) => token),
    [7, 9, 10],
  );
  for (const { token, source } of pendingNotifications(group.state, 9)) {
    group.do(COMMANDS.forkUnpin.number, source.replace('\0', '/'), { forkToken: token });
    group.do(COMMANDS.forkUnpinned.number, 'a/s', { forkToken: token });
  }
  // The fork of the purged bucket lives on, and its notification has no effect.
  assert.equal(FORK_GONE.read(group.do(COMMANDS.deleteStream.number, 'b/f'))?.token, 8);
  group.do(COMMANDS.forkUnpin.number, 'a/s', { forkToken: 8 });
  group.do(COMMANDS.forkUnpinned.number, 'a/s', { forkToken: 8 });
  group.do(COMMANDS.deleteStream.number, 'a/s');
  group.do(COMMANDS.deleteStream.number, 'b/s');
  assert.equal(group.tags(), 'bm');
});

test('a fork that is asked after is there, or never comes', () => {
  const group = withSource();
  const there = (name: string, token: number): number => {
    const reply = group.do(COMMANDS.forkCheck.number, name, { forkToken: token });
    return COMMANDS.forkCheck.result.read(reply).isThere ? 1 : 0;
  };
  assert.equal(there('a/f', 7), 0);
  begin(group, 'a/f', 7);
  assert.equal(there('a/f', 7), 1, 'in the making');
  assert.equal(there('a/f', 8), 0);
  pin(group, 'a/f', 7);
  data(group, 'a/f', 7, WHOLE);
  end(group, 'a/f', 7);
  assert.equal(there('a/f', 7), 1);
  fork(group, 'a/g', 8, { from: 'a/f' });
  group.do(COMMANDS.deleteStream.number, 'a/f');
  assert.equal(there('a/f', 7), 1, 'its tombstone keeps its source');
  group.do(COMMANDS.deleteStream.number, 'a/g');
  group.do(COMMANDS.forkUnpin.number, 'a/f', { forkToken: 8 });
  assert.equal(there('a/f', 7), 1, 'it is told of soon');
  group.do(COMMANDS.forkUnpinned.number, 'a/f', { forkToken: 7 });
  assert.equal(there('a/f', 7), 0);
  // Came late: of a fork that was given up.
  assert.equal(code(pin(group, 'a/f', 99)), 'OK');
  const all = pinChecks(group.state, 0, 0, 9);
  assert.deepEqual(
    all.map(({ token, fork: name, source }) => [token, name, source]),
    [
      [7, 'a\0f', 'a\0s'],
      [99, 'a\0f', 'a\0s'],
    ],
  );
  assert.deepEqual(
    pinChecks(group.state, 1, 8, 9).map(({ token }) => token),
    [99],
    'they go on where they ended',
  );
  assert.deepEqual(pinChecks(group.state, 0, 0, 1).length, 1);
});

test('impossible parameters are refused', () => {
  const group = withSource();
  const kinds = [COMMANDS.forkBegin.number, COMMANDS.forkPin.number, COMMANDS.forkData.number];
  for (const kind of kinds) {
    for (const payload of [undefined, bytes('x'), new Uint8Array(100), new Uint8Array(100).fill(255)]) {
      assert.equal(group.code(kind, 'a/f', { forkToken: 7, payload }), 'INTERNAL');
    }
  }
  begin(group, 'a/f', 7);
  const whole = encodeForkData({ anchor: 0, at: 0, record: 0, ends: [3, 3], bytes: bytes('abc') });
  assert.equal(
    group.code(COMMANDS.forkData.number, 'a/f', { forkToken: 7, payload: whole }),
    'INTERNAL',
    'an empty message',
  );
  const short = encodeForkData({ anchor: 0, at: 0, record: 0, ends: [4], bytes: bytes('abc') });
  assert.equal(group.code(COMMANDS.forkData.number, 'a/f', { forkToken: 7, payload: short }), 'INTERNAL');
});
