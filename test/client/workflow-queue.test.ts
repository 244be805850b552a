// The queue of a Workflow World on a real node: delays, repeats, and programs that die. Each program is a client of its own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { after, test } from 'node:test';
import {
  type FollowOptions,
  type FollowedBatch,
  type MillraceClient,
  type MillraceStream,
  connect,
} from '../../src/client/client.ts';
import { QueuedMessages } from '../../src/client/workflow-queue-fold.ts';
import type { WorkflowWorldOptions } from '../../src/client/workflow-world.ts';
import { until } from '../support/until.ts';
import { startNode } from './node.ts';
import { BYTES, PREFIX, type Program, startProgram } from './workflow-program.ts';

/** It is lengthened each second: a busy machine stands still for less than the other two. */
const LEASE_MS = 3000;

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

/** Resolves when leases have been lengthened for longer than one lasts, from now on. */
async function isKeptLonger(bucket: string): Promise<void> {
  const sinceMs = Date.now();
  const records = client.stream(bucket, 'queue').records<Record<string, unknown>>();
  for await (const { value } of records.follow({ record: 'now' }))
    if ('keep' in value && Date.now() - sinceMs > LEASE_MS) return;
}

test('a message of a process that died is delivered by another one, and one that is under way is not', async () => {
  const options = { bucket: 'dying', leaseMs: LEASE_MS };
  const [dying, living] = [program(options), program(options)];
  const attempts: number[] = [];
  living.handle.current = async (_message, attempt) => {
    attempts.push(attempt);
    await isKeptLonger('dying');
  };
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const isTaken = new Promise<void>((resolve) => {
    dying.handle.current = async () => {
      resolve();
      return await ended;
    };
  });
  await dying.world.start();
  await living.world.queue(`${PREFIX}flow`, 'm');
  await isTaken;
  await living.world.start();
  await isKeptLonger('dying');
  assert.deepEqual(attempts, [], 'its lease is kept while it lives');
  dying.kill();
  // A handler that outlives the client leaves no timer behind, which would keep this process.
  end();
  const third = program(options);
  third.handle.current = living.handle.current;
  await third.world.start();
  await until('it is delivered again', () => attempts.length > 0);
  await Promise.all([living.world.close(), third.world.close()]);
  assert.deepEqual(attempts, [2]);
});

test('a program that starts again goes on, and need not read all that was ever queued', async () => {
  const options = { bucket: 'again', leaseMs: LEASE_MS };
  const before = program(options);
  const seen = new Set<unknown>();
  before.handle.current = async (message) =>
    await Promise.resolve(message === 'later' ? { timeoutSeconds: 1 } : void seen.add(message));
  await before.world.queue(`${PREFIX}flow`, 'later');
  await before.world.start();
  await Promise.all(Array.from({ length: 700 }, async (_, i) => await before.world.queue(`${PREFIX}flow`, i)));
  await until('all are delivered', () => seen.size === 700);
  const stream = client.stream('again', 'queue');
  await until('what is done is discarded', async () => (await stream.head()).retainedOffset > 0);
  before.kill();
  const { world, handle } = program(options);
  handle.current = async (message) => await Promise.resolve(void seen.add(message));
  await world.start();
  await until('what is put off is delivered', () => seen.has('later'));
  await world.close();
  assert.equal(seen.size, 701);
});

async function limitBytes(bucket: string, max_retained_bytes: number): Promise<void> {
  const body = JSON.stringify({ max_retained_bytes });
  const path = `/__svc/quota/${bucket}`;
  const { status } = await server.admin.request('PUT', path, { 'Content-Type': 'application/json' }, body);
  assert.equal(status, 204);
}

/** Appends that are refused from now on. */
async function refusals(): Promise<() => Promise<number>> {
  const count = async (): Promise<number> => Number((await server.metrics())['quota_refusals'] ?? 0);
  const before = await count();
  return async () => (await count()) - before;
}

test('a message that could not be taken is taken later', async () => {
  const { world, handle } = program({ bucket: 'refused' });
  const isDelivered = new Promise<void>((resolve) => {
    handle.current = async () => await Promise.resolve(resolve());
  });
  await world.queue(`${PREFIX}flow`, 'm');
  await limitBytes('refused', 1);
  const refused = await refusals();
  await world.start();
  await until('a take is refused', async () => (await refused()) > 0);
  await limitBytes('refused', 1_000_000);
  await isDelivered;
  await world.close();
});

test('what is refused while a message is under way, or when it is done, is said again', async () => {
  const bucket = 'refused-later';
  const { world, handle } = program({ bucket, leaseMs: LEASE_MS });
  let attempts = 0;
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const isTaken = new Promise<void>((resolve) => {
    handle.current = async () => {
      attempts++;
      resolve();
      return await ended;
    };
  });
  await world.queue(`${PREFIX}flow`, 'm');
  await world.start();
  await isTaken;
  await limitBytes(bucket, 1);
  const refused = await refusals();
  await until('a lease is not lengthened', async () => (await refused()) > 0);
  await limitBytes(bucket, 1_000_000);
  await isKeptLonger(bucket);
  await limitBytes(bucket, 1);
  const before = await refused();
  end();
  await until('its end is refused', async () => (await refused()) > before);
  await limitBytes(bucket, 1_000_000);
  const records = client.stream(bucket, 'queue').records<Record<string, unknown>>();
  for await (const { value } of records.follow()) if ('done' in value) break;
  await world.close();
  assert.equal(attempts, 1);
});

test('a handler that cannot be reached is no attempt, and other queues are refused', async () => {
  let tries = 0;
  const attempts: string[] = [];
  const { world } = program({
    bucket: 'unreached',
    fetch: async (url, { headers }) => {
      if (++tries === 1) throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } });
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

test('a request that ends without an answer is an attempt, for its handler may be at work', async () => {
  const attempts: (string | null)[] = [];
  const { world } = program({
    bucket: 'broken',
    fetch: async (_url, { headers }) => {
      attempts.push(new Headers(headers).get('x-vqs-message-attempt'));
      if (attempts.length === 1) throw new TypeError('fetch failed', { cause: { code: 'UND_ERR_SOCKET' } });
      return await Promise.resolve(Response.json({ ok: true }));
    },
  });
  await world.start();
  await world.queue('__wkf_step_s', 1);
  await until('it is delivered twice', () => attempts.length === 2);
  await world.close();
  assert.deepEqual(attempts, ['1', '2']);
});

test('messages become free in the order of their times, also when a clock is set back', () => {
  const queued = new QueuedMessages();
  const put = (id: string, dueMs: number): void =>
    queued.apply({ put: { id, queueName: 'q', body: '', headers: {}, dueMs } });
  for (const [id, dueMs] of [['c', 30] as const, ['a', 10] as const, ['b', 10] as const, ['d', 40] as const])
    put(id, dueMs);
  const dueAt = (atMs: number): string => [...queued.due(atMs)].map(({ id }) => id).join('');
  assert.deepEqual([dueAt(9), queued.nextMs, dueAt(30), queued.nextMs], ['', 10, 'abc', 40]);
  assert.deepEqual([dueAt(5), dueAt(30)], ['', 'abc']);
  queued.apply({ take: 'a', by: 'x', atMs: 30, untilMs: 35 });
  queued.apply({ keep: 'a', by: 'x', untilMs: 38 });
  assert.deepEqual([dueAt(30), dueAt(35), dueAt(38), queued.nextMs], ['bc', 'bc', 'bca', 40]);
  queued.apply({ later: 'a', by: 'x', dueMs: 50, attempt: 1 });
  queued.apply({ take: 'b', by: 'y', atMs: 38, untilMs: 60 });
  queued.apply({ done: 'b', by: 'y' });
  const again = new QueuedMessages(queued.all());
  assert.deepEqual(
    [...again.due(100)].map(({ id }) => id),
    ['c', 'd', 'a'],
  );
  assert.deepEqual([dueAt(49), queued.nextMs, dueAt(50), queued.nextMs], ['cd', 50, 'cda', 60]);
});

test('what a stranger writes to the queue is passed over, and a queue that is deleted is made again', async () => {
  const { world, handle } = program({ bucket: 'strange' });
  const seen: unknown[] = [];
  handle.current = async (message) => await Promise.resolve(void seen.push(message));
  const stream = client.stream('strange', 'queue', { contentType: 'application/json' });
  await world.queue(`${PREFIX}flow`, 1);
  await stream.append(
    JSON.stringify([7, null, 'put', { put: null }, { put: { id: 'm' } }, { take: {} }, { $entries: [1] }]),
  );
  await world.start();
  await world.queue(`${PREFIX}flow`, 2);
  await until('both are delivered', () => seen.length === 2);
  await stream.delete();
  await world.queue(`${PREFIX}flow`, 3);
  await until('so is one that came to the next stream', () => seen.length === 3);
  await stream.delete();
  await until('a process that delivers makes it, too', async () => await isThere(stream));
  await world.close();
});

async function isThere(stream: MillraceStream): Promise<boolean> {
  return await stream.head().then(
    () => true,
    () => false,
  );
}

/** A client whose streams follow as this says. */
function following(
  follow: (stream: MillraceStream, options: FollowOptions) => AsyncGenerator<FollowedBatch, void>,
): MillraceClient {
  const own = connect(server.url);
  const open = own.stream.bind(own);
  own.stream = (...path) => {
    const stream = open(...path);
    const plain = open(...path);
    stream.follow = (options) => follow(plain, options ?? {});
    return stream;
  };
  after(() => own.close());
  return own;
}

test('a queue that is closed is looked at each second', async () => {
  let looks = 0;
  const own = following((stream, options) => {
    looks++;
    return stream.follow(options);
  });
  const { world } = program({ bucket: 'closed', client: own });
  await world.queue(`${PREFIX}flow`, 1);
  await client.stream('closed', 'queue').close();
  await world.start();
  await until('it is looked at again', () => looks > 1);
  const sinceMs = Date.now();
  await until('it is looked at five times', () => looks > 5);
  assert(Date.now() - sinceMs > 1000);
  await world.close();
});

for (const how of ['ends', 'starts again'] as const) {
  test(`a message that was just taken is free when its taker ${how}`, async () => {
    const bucket = `taken-${how === 'ends' ? 'end' : 'again'}`;
    let isTaken = false;
    const own = following(async function* hidden(stream, options) {
      for await (const batch of stream.follow(options)) {
        if (!isTaken && new TextDecoder().decode(batch.data).includes('"take"')) {
          isTaken = true;
          if (how === 'starts again') throw new Error('the connection ends');
          await new Promise((resolve) => options.signal?.addEventListener('abort', resolve));
          return;
        }
        yield batch;
      }
    });
    const options = { bucket, leaseMs: 600_000 };
    const taker = program({ ...options, client: own });
    const attempts: number[] = [];
    taker.handle.current = async (_message, attempt) => await Promise.resolve(void attempts.push(attempt));
    await taker.world.start();
    await taker.world.queue(`${PREFIX}flow`, 'm');
    await until('it is taken', () => isTaken);
    const other = program(options);
    other.handle.current = taker.handle.current;
    if (how === 'ends') {
      await taker.world.close();
      await other.world.start();
    }
    await until('it is delivered', () => attempts.length > 0);
    await Promise.all([taker.world.close(), other.world.close()]);
    assert.deepEqual(attempts, [1]);
  });
}

test('a message whose process is killed is delivered by another one', async () => {
  const modules = new URL('../../src/client/', import.meta.url).href;
  const child = spawn(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { connect } from '${modules}client.js';
     import { createWorld } from '${modules}workflow-world.js';
     const fetch = async () => {
       console.log('under way');
       return await new Promise(() => undefined);
     };
     const client = connect('${server.url}');
     await createWorld({ client, bucket: 'killed', baseUrl: 'http://program', leaseMs: ${LEASE_MS}, fetch }).start();`,
  ]);
  after(() => child.kill('SIGKILL'));
  const { world, handle } = program({ bucket: 'killed', leaseMs: LEASE_MS });
  const attempts: number[] = [];
  handle.current = async (_message, attempt) => await Promise.resolve(void attempts.push(attempt));
  await world.queue(`${PREFIX}flow`, 'm');
  await once(child.stdout, 'data');
  await world.start();
  await isKeptLonger('killed');
  assert.deepEqual(attempts, []);
  child.kill('SIGKILL');
  await until('it is delivered again', () => attempts.length > 0);
  await world.close();
  assert.deepEqual(attempts, [2]);
});
