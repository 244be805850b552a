// Conditional writes wait for the end of an upgrade: a node that does not know conditions would stop at one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../src/base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../../src/ports.ts';
import { ConditionGate } from '../../src/gateway/condition-gate.ts';
import { type Request, newRequest } from '../../src/protocol/request.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

test('writes with a condition are refused until every node understands them, others pass', async () => {
  const passed: number[] = [];
  const inner: ShardGateway = {
    groupCount: 1,
    shardCount: 1,
    groupOf: () => 0,
    openTopic: () => 1,
    closeTopic: () => undefined,
    send: ({ op }: Request, _handler: ReplyHandler) => passed.push(op) > 0,
  };
  let isUnderstood = false;
  const gate = new ConditionGate(inner, () => isUnderstood);
  const codes: string[] = [];
  const send = (op: number, condition: string): void => {
    const request = newRequest();
    request.op = op;
    request.command.condition = condition;
    assert(gate.send(request, { onReply: ({ code }) => codes.push(errorCode(code)) }));
    assert.deepEqual(codes, [], 'no answer comes inside send()');
  };
  for (const op of [COMMANDS.append.number, COMMANDS.create.number, COMMANDS.deleteStream.number]) {
    send(op, '');
    send(op, '- *');
    await Promise.resolve();
    assert.deepEqual(codes.splice(0), ['UPGRADE_UNFINISHED']);
  }
  assert.deepEqual(passed.splice(0), [COMMANDS.append.number, COMMANDS.create.number, COMMANDS.deleteStream.number]);
  isUnderstood = true;
  send(COMMANDS.create.number, '- *');
  assert.deepEqual(passed, [COMMANDS.create.number]);
});
