import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RECORDS_PER_REQUEST_MAX } from '../../src/base/limits.ts';
import { Command, FLAG_RECORDS } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import type { ModelCommand } from '../stream/model-command.ts';
import { Proposer } from '../stream/propose.ts';
import { plainCommand } from '../stream/random-commands.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

function append(type: string, body: string, more: Partial<ModelCommand> = {}): ModelCommand {
  return { ...plainCommand(12_345, 'bucket', 'stream'), type, body: bytes(body), ...more };
}

/** The content of an entry of these commands, in order. */
function logged(
  proposer: Proposer,
): { payload: string; ends: number[]; isRecords: boolean; nowMs: number; key: string }[] {
  const all: ReturnType<typeof logged> = [];
  const command = new Command();
  eachCommand(proposer.finish(), command, () => {
    assert.equal(command.kind, COMMANDS.append.number);
    all.push({
      payload: Buffer.from(
        command.bytes.subarray(command.payloadAt, command.payloadAt + command.payloadBytes),
      ).toString(),
      ends: Array.from({ length: command.recordCount }, (_, i) => command.view.getUint32(command.endsAt + 4 * i, true)),
      isRecords: command.has(FLAG_RECORDS),
      nowMs: command.nowMs,
      key: command.keyText(),
    });
  });
  return all;
}

test('JSON goes into the log as lines with their ends, other bytes as they are; both from the ring and from the transfer channel', () => {
  for (const isTransferred of [false, true]) {
    const proposer = new Proposer();
    assert.equal(proposer.add(append('application/json', ' [1, {"a" : 2.0}]'), undefined, isTransferred), 'OK');
    assert.equal(proposer.add(append('application/json; charset=utf-8', '"x"'), undefined, isTransferred), 'OK');
    assert.equal(proposer.add(append('text/plain', '[1, 2]'), undefined, isTransferred), 'OK');
    for (const type of ['application/jsonx', 'application/json charset=utf-8', 'application/json\tx'])
      assert.equal(proposer.add(append(type, '[1, 2]'), undefined, isTransferred), 'OK');
    const [first, second, third, ...others] = logged(proposer);
    assert.deepEqual([first?.payload, first?.ends, first?.isRecords], ['1\n{"a":2.0}\n', [2, 12], true]);
    assert.deepEqual([second?.payload, second?.ends], ['"x"\n', [4]]);
    assert.deepEqual([third?.payload, third?.ends, third?.isRecords], ['[1, 2]', [], false]);
    assert.deepEqual(
      others.map(({ payload, ends, isRecords }) => [payload, ends, isRecords]),
      others.map(() => ['[1, 2]', [], false]),
    );
    assert.equal(others.length, 3);
    assert.deepEqual([first?.nowMs, first?.key], [12_345, 'bucket\0stream']);
  }
});

test('what is refused leaves nothing in the entry', () => {
  const proposer = new Proposer();
  assert.equal(proposer.add(append('application/json', '{'), undefined, false), 'INVALID_JSON');
  assert.equal(proposer.add(append('application/json', '[]'), undefined, false), 'EMPTY_JSON_ARRAY');
  const many = `[${'1,'.repeat(RECORDS_PER_REQUEST_MAX)}1]`;
  assert.equal(proposer.add(append('application/json', many), undefined, false), 'TOO_MANY_RECORDS');
  const attributes = { ...plainCommand(0, 'bucket', 'stream'), kind: 'attributes' as const };
  assert.equal(proposer.add(attributes, '[]', false), 'INVALID_ATTRIBUTES');
  assert.equal(proposer.add(append('text/plain', 'kept'), undefined, false), 'OK');
  assert.deepEqual(
    logged(proposer).map(({ payload }) => payload),
    ['kept'],
  );
});

test('as many records as are allowed fit, at the border of an entry that grew', () => {
  const proposer = new Proposer();
  const most = `[${'1,'.repeat(RECORDS_PER_REQUEST_MAX - 1)}1]`;
  assert.equal(proposer.add(append('application/json', most), undefined, false), 'OK');
  assert.equal(proposer.add(append('text/plain', 'behind'), undefined, false), 'OK');
  const [first, second] = logged(proposer);
  assert.equal(first?.ends.length, RECORDS_PER_REQUEST_MAX);
  assert.equal(first?.ends.at(-1), 2 * RECORDS_PER_REQUEST_MAX);
  assert.equal(second?.payload, 'behind');
});
