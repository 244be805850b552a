// What the gate of quotas asks before a write, and what it does when the groups cannot say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../../src/ports.ts';
import { QuotaGate } from '../../src/server/quota-gate.ts';
import { COMMAND_CREATE } from '../../src/wire/command.ts';
import { Reply } from '../../src/wire/reply.ts';
import { BUCKET_FLAG_SOON, OP_BUCKET, type Request, newRequest } from '../../src/wire/request.ts';

class Shards implements ShardGateway {
  readonly groupCount = 4;
  readonly shardCount = 2;
  readonly sent: { readonly op: number; readonly flags: number; readonly handler: ReplyHandler }[] = [];

  groupOf(): number {
    return 0;
  }

  send({ op, readFlags: flags }: Request, handler: ReplyHandler): boolean {
    this.sent.push({ op, flags, handler });
    return true;
  }

  openTopic(): number {
    return 0;
  }

  closeTopic(): void {}

  /** Answers all that came. */
  answer(fill: (reply: Reply) => void): void {
    for (const { handler } of this.sent.splice(0)) {
      const reply = new Reply();
      fill(reply);
      handler.onReply(reply);
    }
  }
}

const create = (): Request => {
  const request = newRequest();
  request.op = COMMAND_CREATE;
  Object.assign(request.command, { kind: COMMAND_CREATE, bucket: 'b', stream: 's' });
  return request;
};

test('the first write to a bucket asks for what is known soon, and goes on when there is no bound', async () => {
  const shards = new Shards();
  const gate = new QuotaGate(shards, () => 0);
  const codes: number[] = [];
  assert(gate.send(create(), { onReply: ({ code }) => codes.push(code) }));
  await Promise.resolve();
  assert.deepEqual(
    shards.sent.map(({ op, flags }) => [op, flags]),
    [
      [OP_BUCKET, BUCKET_FLAG_SOON],
      [OP_BUCKET, BUCKET_FLAG_SOON],
    ],
    'whoever waits for leaders of other groups waits as long as an election',
  );
  shards.answer((reply) => {
    reply.recordStart = -1;
    reply.recordNext = -1;
  });
  assert.deepEqual(
    shards.sent.map(({ op }) => op),
    [COMMAND_CREATE],
  );
  shards.answer((reply) => (reply.code = errorNumber('OK')));
  assert.deepEqual(codes, [errorNumber('OK')]);
});
