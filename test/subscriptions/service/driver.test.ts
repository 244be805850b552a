// The driver with a log in memory and receivers that answer when the test says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { WEBHOOK_DELIVERIES_MAX, WEBHOOK_SLOW_DELIVERIES_MAX } from '../../../src/base/limits.ts';
import type { Sent } from '../../../src/subscriptions/webhooks/delivering.ts';
import { Driver } from '../../../src/subscriptions/service/driver.ts';
import { Inspector } from '../../../src/subscriptions/service/inspection.ts';
import type { StreamTail } from '../../../src/subscriptions/state/decide.ts';
import { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { SubscriptionCommand } from '../../../src/subscriptions/state/record.ts';
import type { Subscription } from '../../../src/subscriptions/state/subscription.ts';
import { WEBHOOK } from '../state/scene.ts';
import { FakeRuntime } from '../../support/fake-runtime.ts';

interface Sending {
  readonly sub: Subscription;
  readonly wakeId: string | undefined;
  readonly signal: AbortSignal;
  readonly answer: (sent: Sent) => void;
}

class Stage {
  readonly runtime = Object.assign(new FakeRuntime(), { wallMs: 1_000_000, clockMs: 5000 });
  isLogBroken = false;
  readonly sending: Sending[] = [];
  readonly ops: string[] = [];
  readonly tails = new Map<string, StreamTail>();
  readonly machine: Machine;
  readonly driver: Driver;

  constructor() {
    const machine = new Machine({
      added: () => undefined,
      changed: (sub) => this.driver.touch(sub),
      removed: (sub) => this.driver.removed(sub),
      linked: () => undefined,
      unlinked: () => undefined,
    });
    this.machine = machine;
    this.driver = new Driver({
      tails: { of: (path) => this.tails.get(path) },
      isCurrent: (sub) => machine.subscriptions.get(sub.id) === sub,
      append: (command) => this.#append(command),
      send: (sub, signal) =>
        new Promise((answer) => {
          this.sending.push({ sub, wakeId: sub.wake?.id, signal, answer });
        }),
      log: pino({ level: 'silent' }),
      runtime: this.runtime,
    });
    this.driver.start([]);
  }

  subscribe(id: string, url = WEBHOOK.url): void {
    const path = `events/${id}`;
    this.tails.set(path, { incarnation: 1, offset: 10 });
    const links = [[path, 1, 0]] as const;
    this.machine.apply({
      op: 'create',
      id,
      at: this.runtime.wallMs,
      config: { ...WEBHOOK, url },
      hash: '',
      base: '',
      links,
    });
  }

  sub(id: string): Subscription {
    return this.machine.subscriptions.get(id) as Subscription;
  }

  ackAll(id: string): void {
    const { wake, generation } = this.sub(id);
    const acks = [[`events/${id}`, 1, 10]] as const;
    this.machine.apply({ op: 'ack', id, at: this.runtime.wallMs, wake: wake?.id ?? '', generation, acks, done: true });
  }

  #append(command: SubscriptionCommand): ReturnType<ConstructorParameters<typeof Driver>[0]['append']> {
    if (this.isLogBroken) return Promise.reject(new Error('no leader'));
    this.ops.push(command.op);
    return Promise.resolve(this.machine.apply(command));
  }
}

/** Everything that follows without a timer has happened. */
async function rest(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}

test('a wake is issued, delivered once, and noted', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  assert.equal(stage.sending.length, 1);
  stage.driver.touch(stage.sub('a'));
  await rest();
  assert.equal(stage.sending.length, 1, 'while it is on its way it is not sent again');
  stage.sending[0]?.answer({ result: 'done' });
  await rest();
  assert.deepEqual(stage.ops, ['wake', 'done']);
  assert.equal(stage.sub('a').links.get('events/a')?.acked, 10);
  stage.driver.stop();
});

test('what a receiver answers after its wake is over is not noted', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  stage.ackAll('a');
  await rest();
  assert(stage.sending[0]?.signal.aborted);
  stage.sending[0]?.answer({ result: 'failed', reason: 'aborted' });
  await rest();
  assert.deepEqual(stage.ops, ['wake']);
  assert.equal(stage.sub('a').failures, 0);
  stage.driver.stop();
});

test('a deleted subscription that is recreated has nothing of the old one', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  stage.machine.apply({ op: 'delete', id: 'a', at: 0 });
  stage.subscribe('a');
  await rest();
  assert(stage.sending[0]?.signal.aborted);
  stage.sending[0]?.answer({ result: 'done' });
  await rest();
  assert.equal(stage.sending.length, 2);
  assert.equal(stage.sub('a').links.get('events/a')?.acked, 0);
  stage.driver.stop();
});

test('a bounded number of deliveries at once, then the others in order', async () => {
  const stage = new Stage();
  for (let i = 0; i < WEBHOOK_DELIVERIES_MAX + 2; i++) stage.subscribe(`n${i}`);
  await rest();
  assert.equal(stage.sending.length, WEBHOOK_DELIVERIES_MAX);
  assert.equal(stage.driver.queued, 2);
  stage.sending[0]?.answer({ result: 'taken' });
  stage.sending[1]?.answer({ result: 'failed', reason: 'status 500' });
  await rest();
  assert.equal(stage.sending.length, WEBHOOK_DELIVERIES_MAX + 2);
  assert.equal(stage.driver.queued, 0);
  assert.equal(new Set(stage.sending.map(({ sub }) => sub.id)).size, WEBHOOK_DELIVERIES_MAX + 2);
  stage.driver.stop();
});

test('the node that stops driving cuts off what is under way; the next one delivers the same wake', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  const [first] = stage.sending;
  stage.driver.stop();
  assert(first?.signal.aborted);
  first?.answer({ result: 'failed', reason: 'aborted' });
  await rest();
  assert.deepEqual(stage.ops, ['wake']);
  stage.driver.start(stage.machine.subscriptions.values());
  await rest();
  assert.equal(stage.sending.length, 2);
  assert.equal(stage.sending[1]?.wakeId, first?.wakeId);
  stage.driver.stop();
});

test('a log that takes nothing is not asked in a loop; what could not be noted is noted later, and not sent again', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  stage.isLogBroken = true;
  stage.sending[0]?.answer({ result: 'taken' });
  await rest();
  stage.isLogBroken = false;
  stage.driver.touch(stage.sub('a'));
  await rest();
  assert.equal(stage.sending.length, 1, 'not before a pause');
  stage.runtime.skip(1000);
  stage.driver.touch(stage.sub('a'));
  await rest();
  assert.deepEqual(stage.ops, ['wake', 'delivered']);
  assert.equal(stage.sending.length, 1);
  stage.driver.stop();
});

test('a receiver that is silent beyond its lease has failed, and the wake is over', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  stage.runtime.skip(WEBHOOK.lease_ttl_ms);
  stage.driver.touch(stage.sub('a'));
  await rest();
  assert.deepEqual(stage.ops, ['wake', 'expire']);
  assert(stage.sending[0]?.signal.aborted);
  assert.deepEqual([stage.sub('a').failures, stage.sub('a').nextAttemptAtMs], [1, stage.runtime.wallMs + 1000]);
  stage.sending[0]?.answer({ result: 'failed', reason: 'aborted' });
  await rest();
  assert.equal(stage.sub('a').failures, 1, 'once for the lease and not again for the connection');
  stage.driver.stop();
});

test('a failure that could not be recorded still delays the next attempt', async () => {
  const stage = new Stage();
  stage.subscribe('a');
  await rest();
  stage.isLogBroken = true;
  stage.sending[0]?.answer({ result: 'failed', reason: 'status 500' });
  for (let i = 0; i < 5; i++) {
    await rest();
    stage.runtime.skip(1000);
    stage.driver.touch(stage.sub('a'));
  }
  await rest();
  assert.equal(stage.sending.length, 1, 'a full disk is no reason to call a receiver every second');
  stage.isLogBroken = false;
  stage.runtime.skip(1000);
  stage.driver.touch(stage.sub('a'));
  await rest();
  assert.deepEqual([stage.ops, stage.sub('a').failures], [['wake', 'failed'], 1]);
  stage.driver.stop();
});

test('dead receivers leave room for the others', async () => {
  const stage = new Stage();
  const dead = 3 * WEBHOOK_DELIVERIES_MAX;
  for (let i = 0; i < dead; i++) stage.subscribe(`dead${i}`, `https://dead.example/${i}`);
  // They all fail once; then it is known that the host is dead.
  for (let i = 0; i < dead; i++) {
    await rest();
    stage.sending[i]?.answer({ result: 'failed', reason: 'no answer' });
  }
  await rest();
  assert.equal(stage.sending.length, dead);
  stage.runtime.skip(3000);
  for (const sub of stage.machine.subscriptions.values()) stage.driver.touch(sub);
  await rest();
  assert.equal(stage.sending.length, dead + WEBHOOK_SLOW_DELIVERIES_MAX);
  assert.equal(stage.driver.queued, dead - WEBHOOK_SLOW_DELIVERIES_MAX);
  stage.subscribe('new', 'https://dead.example/new');
  stage.subscribe('alive', 'https://alive.example/');
  await rest();
  assert.equal(stage.sending.at(-1)?.sub.id, 'alive');
  // A waiting delivery that is deleted, or acknowledged otherwise, blocks no other.
  for (let i = 0; i < dead; i++) if (i !== dead - 1) stage.machine.apply({ op: 'delete', id: `dead${i}`, at: 0 });
  for (const { answer } of stage.sending) answer({ result: 'failed', reason: 'aborted' });
  await rest();
  assert(stage.sending.some(({ sub }) => sub.id === 'new'));
  assert.equal(stage.driver.queued, 0);
  stage.driver.stop();
});

test('a wall clock that is set back an hour holds up neither a repetition nor a log that is asked again', async () => {
  const stage = new Stage();
  stage.runtime.wallMs = 1_700_000_000_000;
  stage.subscribe('a');
  await rest();
  stage.sending[0]?.answer({ result: 'failed', reason: 'status 500' });
  await rest();
  stage.runtime.wallMs -= 3_600_000;
  await stage.runtime.pass(1000);
  await rest();
  assert.equal(stage.sending.length, 2);
  stage.isLogBroken = true;
  stage.sending[1]?.answer({ result: 'done' });
  await rest();
  stage.isLogBroken = false;
  stage.runtime.wallMs -= 3_600_000;
  await stage.runtime.pass(1000);
  await rest();
  assert.equal(stage.ops.at(-1), 'done');
  stage.driver.stop();
});

test('an operator sees why a delivery failed, and has it tried again at once', async () => {
  const stage = new Stage();
  const { machine, driver } = stage;
  const inspector = new Inspector({ machine, driver, tailOf: (path) => stage.tails.get(path) });
  for (const id of ['b', 'a', 'c']) stage.subscribe(id);
  await rest();
  for (const { sub, answer } of stage.sending.splice(0)) {
    answer(sub.id === 'b' ? { result: 'failed', reason: 'it answered 500' } : { result: 'done' });
  }
  await rest();
  const page = inspector.list('', 2);
  assert.deepEqual([page.driving, page.next_cursor, page.subscriptions.map(({ id }) => id)], [true, 'b', ['a', 'b']]);
  const [healthy, failing] = page.subscriptions;
  assert.deepEqual([healthy?.failures, healthy?.last_error, healthy?.has_pending], [0, null, false]);
  assert.deepEqual([failing?.failures, failing?.last_error, failing?.has_pending], [1, 'it answered 500', true]);
  assert.deepEqual(
    inspector.list('b', 2).subscriptions.map(({ id }) => id),
    ['c'],
  );
  assert.deepEqual([inspector.deliver('a'), inspector.deliver('none')], ['not-waiting', 'not-found']);
  assert.equal(stage.sending.length, 0, 'the pause behind the failure runs');
  assert.equal(inspector.deliver('b'), 'trying');
  await rest();
  assert.equal(stage.sending.length, 1, 'no time has passed');
  stage.sending[0]?.answer({ result: 'done' });
  await rest();
  assert.deepEqual([stage.sub('b').failures, driver.lastError(stage.sub('b'))], [0, undefined]);
  stage.driver.stop();
  assert.equal(inspector.deliver('b'), 'not-driving');
});
