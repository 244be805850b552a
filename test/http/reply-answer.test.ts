// A bug in what a route does with a reply ends that request, and nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CorsPolicy } from '../../src/access/cors.ts';
import { ResponseBackpressure } from '../../src/http/backpressure.ts';
import { ReplyAnswer } from '../../src/http/reply-answer.ts';
import { RequestIds } from '../../src/audit/request-ids.ts';
import { Responder } from '../../src/http/response.ts';
import { Reply } from '../../src/protocol/reply.ts';

const IDS = new RequestIds('1-0');

test('a reply that a route cannot look at is logged and answered 500, and its call serves no other request', () => {
  const bug = new Error('a bug in intercept');
  const seen: unknown[] = [];
  const answer: ReplyAnswer<Call> = new ReplyAnswer(callThat(seen));
  answer.renderer = {
    intercept: () => {
      throw bug;
    },
    render: () => assert.fail('nothing is rendered'),
  };
  answer.isAwaited = true;
  answer.take(new Reply());
  assert.deepEqual(seen, [bug]);
  assert(answer.isAwaited);
});

type Call = ReturnType<typeof callThat>;

function callThat(crashed: unknown[]): ConstructorParameters<typeof ReplyAnswer>[0] {
  return {
    operation: 'read',
    requestId: '1-0-1',
    server: { logError: assert.fail },
    family: 'bucketed',
    responder: new Responder({
      cors: new CorsPolicy(['*'], 'GET, OPTIONS').blocksFor(''),
      body: 'written',
      backpressure: new ResponseBackpressure(assert.fail, IDS),
      ids: IDS,
    }),
    res: undefined,
    meters: { spend: () => assert.fail('nothing is spent') },
    fail: assert.fail,
    done: () => assert.fail('it is not answered as if all were well'),
    crash: (error) => crashed.push(error),
    cut: assert.fail,
    over: assert.fail,
  };
}
