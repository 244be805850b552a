// Every task ends, also where no thread starts, and threads that die at once are not started in a loop.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ThreadPool, ThreadsFailed } from '../../src/threads/thread-pool.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';

type Fixture = 'throws' | 'ends' | 'echo';

function open(t: TestContext, fixture: Fixture, changes: { readonly threadsMax?: number } = {}) {
  const runtime = new FakeRuntime();
  const errors: string[] = [];
  const pool = new ThreadPool<string, string>({
    title: 'threads of a test',
    entry: new URL(`./${fixture}.worker.js`, import.meta.url),
    task: 'echo',
    threadsMax: 1,
    tasksPerThread: 4,
    queueMax: 100,
    idleMs: Infinity,
    runtime,
    onError: (error) => errors.push(String(error)),
    ...changes,
  });
  t.after(() => pool.close());
  return { pool, runtime, errors };
}

for (const threadsMax of [1, 2]) {
  for (const [fixture, reason] of [
    ['throws', /^threads of a test do not start: Error: planted: this module throws$/],
    ['ends', /^threads of a test do not start: a thread ended without an error$/],
  ] as const) {
    test(`${threadsMax} at most, ${fixture}: all tasks end with the reason, and again after a pause`, async (t) => {
      const { pool, runtime, errors } = open(t, fixture, { threadsMax });
      const failed = async (count: number): Promise<void> => {
        const tasks = await Promise.allSettled(Array.from({ length: count }, () => pool.run('x')));
        for (const task of tasks) {
          assert(task.status === 'rejected' && task.reason instanceof ThreadsFailed, JSON.stringify(task));
          assert.match(task.reason.message, reason);
        }
      };
      await failed(20);
      const seen = errors.length;
      assert(seen >= 1 && seen <= threadsMax, errors.join('\n'));
      await failed(20);
      assert.equal(errors.length, seen, 'no thread is started during the pause');
      runtime.skip(1000);
      await failed(1);
      assert.equal(errors.length, seen + 1);
    });
  }
}

test('a thread that ends with a task fails that task, and the next task has another thread at once', async (t) => {
  const { pool, errors } = open(t, 'echo');
  assert.equal(await pool.run('a'), 'a');
  await assert.rejects(pool.run('end'), /worker exited with code: 4/);
  assert.equal(await pool.run('b'), 'b');
  assert.deepEqual(errors, []);
});

test('a thread that fails behind its task is replaced when there is another one', async (t) => {
  const { pool, errors } = open(t, 'echo');
  for (let i = 0; i < 3; i++) {
    assert.equal(await pool.run('a'), 'a');
    // The thread fails at some time after it has taken this task: tasks are sent until
    // one is lost with it, or the pool tells of it.
    const told = errors.length;
    let lost = await isLost(pool, 'throw');
    while (!lost && errors.length === told) lost = await isLost(pool, 'a');
    while (await isLost(pool, 'a'));
  }
  for (const error of errors) assert.match(error, /planted: this thread fails/);
});

async function isLost(pool: ThreadPool<string, string>, task: string): Promise<boolean> {
  try {
    assert.equal(await pool.run(task), task);
    return false;
  } catch (error) {
    assert.match(String(error), /planted: this thread fails/);
    return true;
  }
}
