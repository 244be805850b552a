// The service for forks over two groups without consensus: what goes wrong between the steps is undone, and what others
// left undone is done.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCode } from '../../../src/base/errors.ts';
import { FORKS_IN_MAKING_MAX } from '../../../src/base/limits.ts';
import { encodePurge } from '../../../src/protocol/bucket-command.ts';
import { encodeForkBegin, encodeForkPin } from '../../../src/protocol/fork-command.ts';
import { newRequest } from '../../../src/protocol/request.ts';
import { Rig, TEXT, bytes } from './rig.ts';
import { COMMANDS, QUERIES } from '../../../src/protocol/operations.ts';

function withSource(): Rig {
  const rig = new Rig();
  rig.groups[0].do(COMMANDS.create.number, 'a/s', { ...TEXT, payload: bytes('hello ') });
  for (const part of ['big ', 'wide ', 'world'])
    rig.groups[0].do(COMMANDS.append.number, 'a/s', { ...TEXT, payload: bytes(part) });
  return rig;
}

test('a fork in another group, in several pieces', async () => {
  const rig = withSource();
  assert.equal((await rig.fork('b/f', 'a/s', 10, 3)).code, 0);
  assert.equal(rig.text('b/f'), 'hello big wid!');
  assert(rig.asked.filter((op) => op === COMMANDS.forkData.number).length > 2);
  assert.equal(rig.left(), 'P|F');
  assert.equal(errorCode((await rig.fork('b/f', 'a/s')).code), 'CREATE_CONFLICT');
  assert.equal(errorCode((await rig.fork('b/g', 'a/s', 10, 6)).code), 'FORK_SUB_OFFSET_BEYOND');
  assert.equal(errorCode((await rig.fork('b/g', 'a/none')).code), 'FORK_SOURCE_NOT_FOUND');
  await rig.pass(0);
  assert.equal(rig.left(), 'P|F', 'what was refused leaves nothing');
  assert.equal(rig.service.making, 0);
});

const STEPS = [
  COMMANDS.forkBegin.number,
  COMMANDS.forkPin.number,
  QUERIES.read.number,
  COMMANDS.forkData.number,
  COMMANDS.forkEnd.number,
];

test('a step that finds no leader is taken again, also when it was taken', async () => {
  for (const code of ['NO_LEADER', 'OUTCOME_UNKNOWN', 'BACKPRESSURE'] as const) {
    for (const step of STEPS) {
      const rig = withSource();
      let refusals = 3;
      rig.before = ({ op, group, command }) => {
        if (op !== step || refusals === 0) return undefined;
        refusals--;
        // Executed, but the answer was lost.
        if (code === 'OUTCOME_UNKNOWN' && op !== QUERIES.read.number) {
          rig.groups[group as 0 | 1].do(op, `${command.bucket}/${command.stream}`, command);
        }
        return code;
      };
      assert.equal((await rig.fork('b/f', 'a/s')).code, 0, `${code} at ${step}`);
      assert.equal(refusals, 0);
      assert.equal(rig.text('b/f'), 'hello big wide world!');
    }
  }
});

test('a fork that gets nowhere is undone, and its source is told', async () => {
  for (const step of STEPS.slice(1)) {
    const rig = withSource();
    rig.before = ({ op }) => (op === step ? 'NO_LEADER' : undefined);
    assert.equal(errorCode((await rig.fork('b/f', 'a/s')).code), 'NO_LEADER');
    await rig.pass(100);
    assert.equal(rig.left(), '|', `nothing is left of ${step}`);
    assert.equal(rig.groups[1].code(COMMANDS.create.number, 'b/f', TEXT), 'OK');
  }
});

test('a fork of unknown outcome is undone as soon as there is a majority again', async () => {
  for (const lost of [
    COMMANDS.forkBegin.number,
    COMMANDS.forkPin.number,
    COMMANDS.forkData.number,
    COMMANDS.forkEnd.number,
  ]) {
    const rig = withSource();
    let hasMajority = true;
    rig.before = ({ op, group, command }) => {
      if (hasMajority && op !== lost) return undefined;
      // It is in the log of a leader that will lead again, and the client is not told.
      if (hasMajority) rig.groups[group as 0 | 1].do(op, `${command.bucket}/${command.stream}`, command);
      const isFirst = hasMajority;
      hasMajority = false;
      return isFirst ? 'OUTCOME_UNKNOWN' : 'NO_LEADER';
    };
    assert.equal(errorCode((await rig.fork('b/f', 'a/s')).code), 'NO_LEADER');
    await rig.pass(60_000);
    if (lost !== COMMANDS.forkEnd.number)
      assert.equal(rig.groups[1].code(COMMANDS.create.number, 'b/f', TEXT), 'FORK_FORMING');
    rig.before = () => undefined;
    await rig.pass(1000);
    assert.equal(rig.service.undoing, 0);
    const isWhole = lost === COMMANDS.forkEnd.number;
    assert.equal(rig.left(), isWhole ? 'P|F' : '|', `after ${lost}`);
    assert.equal(rig.groups[1].code(COMMANDS.create.number, 'b/f', TEXT), isWhole ? 'CREATE_CONFLICT' : 'OK');
  }
});

test('a source that is trimmed, removed, or recreated in the middle', async () => {
  const cases: readonly (readonly [string, (rig: Rig) => ErrorCode | void, ErrorCode])[] = [
    ['trimmed', () => 'STREAM_GONE', 'FORK_SOURCE_MOVED'],
    ['removed', (rig) => void rig.groups[0].do(COMMANDS.deleteStream.number, 'a/s'), 'FORK_SOURCE_DELETED'],
    [
      'recreated, after a purge',
      (rig) => {
        rig.groups[0].do(COMMANDS.purge.number, 'a', { payload: encodePurge('') });
        rig.groups[0].do(COMMANDS.create.number, 'a/s', {
          ...TEXT,
          payload: bytes('other bytes, and not few of them'),
        });
      },
      'FORK_SOURCE_MOVED',
    ],
  ];
  for (const [what, happens, expected] of cases) {
    const rig = withSource();
    let reads = 0;
    rig.before = ({ op }) => (op === QUERIES.read.number && ++reads === 2 ? happens(rig) : undefined);
    assert.equal(errorCode((await rig.fork('b/f', 'a/s')).code), expected, what);
    await rig.pass(100);
    assert.equal(rig.left(), '|', what);
  }
});

test('the number of concurrent forks is bounded', async () => {
  const rig = withSource();
  rig.before = () => 'NO_LEADER';
  const request = newRequest();
  Object.assign(request.command, { bucket: 'b', stream: 'f' });
  const source = { bucket: 'a', stream: 's', offset: -1, subOffset: 0 };
  const create = (): boolean => rig.service.create(request, source, { onReply: () => undefined });
  for (let i = 0; i < FORKS_IN_MAKING_MAX; i++) assert(create());
  assert(!create());
  assert.equal(rig.service.making, FORKS_IN_MAKING_MAX);
  await rig.pass(60_000);
  assert.equal(rig.service.making, 0);
  assert(create());
});

test('what was left undone is done by the leader: notifications at once, and pins without a fork after a while', async () => {
  const rig = withSource();
  await rig.fork('b/f', 'a/s');
  await rig.fork('b/g', 'a/s');
  rig.service.start();
  // The node died behind its DELETE.
  rig.groups[1].do(COMMANDS.deleteStream.number, 'b/f');
  assert.equal(rig.left(), 'P|FU');
  await rig.pass(1500);
  assert.equal(rig.left(), 'P|F');
  // A pin came late, after its fork had been given up and its source told.
  rig.groups[1].do(COMMANDS.forkBegin.number, 'b/late', { forkToken: 7, payload: encodeForkBegin('a\0s', -1, 0) });
  rig.groups[1].do(COMMANDS.forkAbort.number, 'b/late', { forkToken: 7 });
  rig.groups[1].do(COMMANDS.forkUnpinned.number, 'b/late', { forkToken: 7 });
  rig.groups[0].do(COMMANDS.forkPin.number, 'a/s', { forkToken: 7, payload: encodeForkPin('b\0late', -1) });
  rig.groups[0].do(COMMANDS.deleteStream.number, 'a/s');
  rig.groups[1].do(COMMANDS.deleteStream.number, 'b/g');
  await rig.pass(1500);
  assert.equal(rig.left(), 'PT|', 'the name is still kept');
  await rig.pass(30_000);
  assert.equal(rig.left(), '|');
  assert.equal(rig.service.counters.lost, 1);
  rig.service.stop();
});

test('what waits for a group without a leader holds up nothing else', async () => {
  const rig = withSource();
  rig.groups[1].do(COMMANDS.create.number, 'b/s', TEXT);
  await rig.fork('b/f', 'a/s');
  await rig.fork('a/f', 'b/s');
  rig.before = ({ op, command }) =>
    op === COMMANDS.forkUnpin.number && command.bucket === 'a' ? 'NO_LEADER' : undefined;
  rig.service.start();
  rig.groups[1].do(COMMANDS.deleteStream.number, 'b/f');
  await rig.pass(1500);
  rig.groups[0].do(COMMANDS.deleteStream.number, 'a/f');
  assert.equal(rig.left(), 'PU|PU');
  await rig.pass(1500);
  assert.equal(rig.left(), 'P|U');
  rig.before = () => undefined;
  await rig.pass(1500);
  assert.equal(rig.left(), '|');
  rig.service.stop();
});

test('forks that live are asked after, and stay', async () => {
  const rig = withSource();
  await rig.fork('b/f', 'a/s');
  rig.groups[0].do(COMMANDS.deleteStream.number, 'a/s');
  rig.service.start();
  await rig.pass(60_000);
  assert.equal(rig.left(), 'PT|F');
  assert.equal(rig.service.counters.lost, 0);
  rig.service.stop();
});
