// The queue of a Workflow World on a real node: delays, repeats, and programs that die. Each program is a client of its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkflowWorldOptions } from '../../src/client/workflow-world.ts';
import { until } from '../support/until.ts';
import { startNode } from './node.ts';
import { BYTES, PREFIX, type Program, startProgram } from './workflow-program.ts';

const { server, client } = await startNode();
const program = (options: Partial<WorkflowWorldOptions>): Program => startProgram(server.url, options);

test('a message waits for its time, is repeated as its handler says, and has one ID', async () => {
  const { world, handle } = program({ bucket: 'queue' });
  const seen: [unknown, number, string][] = [];
  const answers: (void | { timeoutSeconds: number } | 'fail')[] = ['fail', { timeoutSeconds: 0.2 }, undefined];
  handle.current = async (message, attempt, id) => {
    seen.push([message, attempt, id]);
    const answer = answers.shift();
    if (answer === 'fail') throw new Error('the handler fails');
    return await Promise.resolve(answer);
  };
  const sentMs = Date.now();
  const { messageId } = await world.queue(`${PREFIX}flow`, { runId: 'r', input: BYTES }, { delaySeconds: 0.3 });
  await world.start();
  await until('it is delivered', () => seen.length === 1);
  assert(Date.now() - sentMs >= 300);
  await until('it is delivered three times', () => seen.length === 3);
  assert(Date.now() - sentMs >= 300 + 1000 + 200);
  const message = { runId: 'r', input: BYTES };
  assert.deepEqual(
    seen,
    [1, 2, 3].map((attempt) => [message, attempt, messageId]),
  );
  await world.close();
});

test('a key is queued once while it waits or is under way', async () => {
  const { world, handle } = program({ bucket: 'keys' });
  const seen: unknown[] = [];
  handle.current = async (message) => void seen.push(message);
  const put = async (n: number): Promise<string> =>
    (await world.queue(`${PREFIX}flow`, n, { idempotencyKey: 'step_1', delaySeconds: 0.2 })).messageId;
  assert.equal(await put(1), await put(2));
  await world.start();
  await until('it is delivered', () => seen.length > 0);
  await world.queue(`${PREFIX}flow`, 'behind');
  await until('so is what came later', () => seen.includes('behind'));
  assert.deepEqual(seen, [1, 'behind']);
  await world.close();
});

test('several processes deliver each message once while all of them live', async () => {
  const programs = Array.from({ length: 3 }, () => program({ bucket: 'several', deliveries: 5 }));
  const seen: unknown[] = [];
  for (const { world, handle } of programs) {
    handle.current = async (message) => {
      seen.push(message);
      await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await world.start();
  }
  const all = Array.from({ length: 60 }, (_, i) => i);
  await Promise.all(all.map(async (i) => await programs[i % 2]?.world.queue(`${PREFIX}flow`, i)));
  await until('all are delivered', () => seen.length >= all.length);
  await Promise.all(programs.map(async ({ world }) => await world.close()));
  assert.deepEqual(
    seen.toSorted((a, b) => Number(a) - Number(b)),
    all,
  );
});

test('a message of a process that died is delivered by another one, and one that is under way is not', async () => {
  const options = { bucket: 'dying', leaseMs: 600 };
  const [dying, living] = [program(options), program(options)];
  const attempts: number[] = [];
  living.handle.current = async (_message, attempt) => {
    attempts.push(attempt);
    // Longer than a lease, which is kept meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 1500));
  };
  const isTaken = new Promise<void>((resolve) => {
    dying.handle.current = async () => {
      resolve();
      return await new Promise(() => undefined);
    };
  });
  await dying.world.start();
  await living.world.queue(`${PREFIX}flow`, 'm');
  await isTaken;
  await living.world.start();
  await new Promise((resolve) => setTimeout(resolve, 900));
  assert.deepEqual(attempts, [], 'its lease is kept while it lives');
  dying.kill();
  const third = program(options);
  third.handle.current = living.handle.current;
  await third.world.start();
  await until('it is delivered again', () => attempts.length > 0);
  await Promise.all([living.world.close(), third.world.close()]);
  assert.deepEqual(attempts, [2]);
});

test('a program that starts again goes on, and need not read all that was ever queued', async () => {
  const options = { bucket: 'again' };
  const before = program(options);
  const seen: unknown[] = [];
  before.handle.current = async (message) => void seen.push(message);
  await before.world.queue(`${PREFIX}flow`, 'later', { delaySeconds: 3 });
  await before.world.start();
  await Promise.all(Array.from({ length: 700 }, async (_, i) => await before.world.queue(`${PREFIX}flow`, i)));
  await until('all are delivered', () => seen.length === 700);
  const stream = client.stream('again', 'queue');
  await until('what is done is discarded', async () => (await stream.head()).retainedOffset > 0);
  before.kill();
  const { world, handle } = program(options);
  handle.current = before.handle.current;
  await world.start();
  await until('what was delayed is delivered', () => seen.at(-1) === 'later');
  await world.close();
  assert.equal(seen.length, 701);
});

test('a handler that cannot be reached is no attempt, and other queues are refused', async () => {
  let tries = 0;
  const attempts: string[] = [];
  const { world } = program({
    bucket: 'unreached',
    fetch: async (url, { headers }) => {
      if (++tries === 1) throw new Error('nothing listens');
      attempts.push(`${url} ${new Headers(headers).get('x-vqs-message-attempt')}`);
      return await Promise.resolve(Response.json({ ok: true }));
    },
  });
  await world.start();
  await world.queue('__wkf_step_s', 1);
  await until('it is delivered', () => attempts.length > 0);
  assert.deepEqual(attempts, ['http://program/.well-known/workflow/v1/step 1']);
  await world.close();
  const answer = await world.createQueueHandler(
    PREFIX,
    async () => await Promise.resolve(),
  )(new Request('http://program', { method: 'POST', body: '{}' }));
  assert.equal(answer.status, 400);
});
