// The life of a wake: issued, delivered, tried again, claimed, acknowledged, expired, fenced off.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retryDelayMs } from '../../../src/subscriptions/state/decide.ts';
import { LEASE_MS, PULL, Scene, WEBHOOK } from './scene.ts';

test('nothing to do before the first event behind the cursor', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 100]);
  assert.deepEqual(scene.step(), { do: 'rest' });
  scene.append('events/a', 101);
  scene.wakes('events/a');
  assert.equal(scene.sub.generation, 1);
});

test('a webhook that says done acknowledges what the wake was issued for and nothing that came later', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0], ['events/b', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  assert.deepEqual(scene.step(), { do: 'deliver', expiresAtMs: scene.nowMs + LEASE_MS });
  scene.append('events/a', 20);
  scene.append('events/b', 5);
  scene.does('OK', { op: 'done', ...scene.about, wake });
  assert.deepEqual([scene.acked('events/a'), scene.acked('events/b')], [10, 0]);
  const next = scene.wakes('events/a', 'events/b');
  assert.notEqual(next, wake);
  assert.equal(scene.sub.generation, 2);
  // The first delivery's answer comes once more: it is about no wake that there is.
  scene.does('IGNORED', { op: 'done', ...scene.about, wake });
});

test('of two nodes that issue the same wake one is ignored', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const first = scene.wakes('events/a');
  scene.does('IGNORED', { op: 'wake', ...scene.about, wake: 'other', generation: 1, tails: [['events/a', 1, 10]] });
  scene.does('IGNORED', { op: 'wake', ...scene.about, wake: 'other', generation: 2, tails: [['events/a', 1, 10]] });
  assert.equal(scene.sub.wake?.id, first);
});

test('a callback without done extends the lease; an expiry that did not see it is ignored', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  const until = scene.sub.leaseUntilMs;
  scene.does('OK', { op: 'delivered', ...scene.about, wake });
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: until });
  scene.nowMs += LEASE_MS - 1;
  scene.ack('OK', wake, [['events/a', 1, 4]], false);
  scene.does('IGNORED', { op: 'expire', ...scene.about, wake, until, next: -1 });
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: scene.nowMs + LEASE_MS });
  scene.nowMs += LEASE_MS;
  assert.deepEqual(scene.step(), { do: 'expire' });
  scene.does('OK', { op: 'expire', ...scene.about, wake, until: scene.sub.leaseUntilMs, next: -1 });
  // Acknowledged offsets stay so; the rest is pending.
  assert.equal(scene.acked('events/a'), 4);
  scene.ack('FENCED', wake, [['events/a', 1, 10]], true, 1);
  scene.wakes('events/a');
});

test('acknowledgements take effect together or not at all', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 3], ['events/b', 7, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  const refused = [[['events/a', 1, 2]], [['events/x', 1, 2]], [['events/b', 6, 0]]] as const;
  for (const [bad] of refused) scene.ack('INVALID_OFFSET', wake, [['events/a', 1, 10], bad], true);
  assert.equal(scene.acked('events/a'), 3);
  scene.ack('FENCED', 'another', [['events/a', 1, 10]], true);
  scene.ack('FENCED', wake, [['events/a', 1, 10]], true, 2);
  assert.equal(scene.acked('events/a'), 3);
  // Named twice, in any order: as far as the further one.
  scene.ack(
    'OK',
    wake,
    [
      ['events/a', 1, 10],
      ['events/a', 1, 5],
    ],
    true,
  );
  assert.equal(scene.acked('events/a'), 10);
  assert.deepEqual(scene.step(), { do: 'rest' });
});

test('a failed delivery is retried when it is due, by the current driver', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  const next = scene.nowMs + 2000;
  scene.does('OK', { op: 'failed', ...scene.about, wake, next });
  assert.equal(scene.sub.failures, 1);
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: next });
  scene.nowMs = next;
  assert.equal(scene.step().do, 'deliver');
  scene.does('OK', { op: 'delivered', ...scene.about, wake });
  assert.deepEqual([scene.sub.failures, scene.sub.nextAttemptAtMs], [0, -1]);
});

test('an expired lease does not bring the next attempt forward', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  const next = scene.nowMs + 3 * LEASE_MS;
  scene.does('OK', { op: 'failed', ...scene.about, wake, next });
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: scene.sub.leaseUntilMs });
  scene.nowMs += LEASE_MS;
  assert.equal(scene.step().do, 'expire');
  scene.does('OK', { op: 'expire', ...scene.about, wake, until: scene.sub.leaseUntilMs, next: -1 });
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: next });
  scene.nowMs = next;
  scene.wakes('events/a');
  assert.equal(scene.sub.failures, 1);
});

test('a receiver that does not answer within the lease has failed', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  scene.nowMs += LEASE_MS;
  const next = scene.nowMs + 1000;
  scene.does('OK', { op: 'expire', ...scene.about, wake, until: scene.sub.leaseUntilMs, next });
  assert.equal(scene.sub.failures, 1);
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: next });
});

test('a callback proves that the wake arrived, whatever the answer to the delivery was', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  scene.ack('OK', wake, [], false);
  scene.does('IGNORED', { op: 'failed', ...scene.about, wake, next: scene.nowMs + 1 });
  assert.equal(scene.sub.failures, 0);
  assert.equal(scene.step().do, 'wait');
});

test('pauses double from one second to a minute, each with 20 % of jitter', () => {
  for (const [failures, base] of [
    [1, 1000],
    [2, 2000],
    [6, 32_000],
    [7, 60_000],
    [1000, 60_000],
  ] as const) {
    assert.equal(retryDelayMs(failures, 0), base * 0.8);
    assert.equal(retryDelayMs(failures, 0.5), base);
    assert(retryDelayMs(failures, 0.999_999) <= base * 1.2);
  }
});

test('workers race for a wake: one gets it, the others learn its holder', () => {
  const scene = Scene.with(PULL, ['events/a', 1, 0]);
  scene.claim('NO_PENDING_WORK', 'one');
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  // No lease runs before a claim; the event has to get into the wake stream.
  assert.deepEqual(scene.step(), { do: 'deliver', expiresAtMs: Infinity });
  scene.does('OK', { op: 'delivered', ...scene.about, wake });
  assert.deepEqual(scene.step(), { do: 'rest' });
  scene.claim('OK', 'one');
  assert.deepEqual([scene.sub.wake?.id, scene.sub.generation, scene.sub.holder], [wake, 1, 'one']);
  scene.claim('ALREADY_CLAIMED', 'two');
  assert.deepEqual(scene.step(), { do: 'wait', untilMs: scene.nowMs + LEASE_MS });
  scene.ack('OK', wake, [['events/a', 1, 10]], true);
  assert.equal(scene.sub.holder, undefined);
  scene.claim('NO_PENDING_WORK', 'two');
});

test('a claim without a wake under way is one', () => {
  const scene = Scene.with(PULL, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  scene.claim('OK', 'one', 'mine');
  assert.deepEqual([scene.sub.wake?.id, scene.sub.generation], ['mine', 1]);
  // No event is written for it.
  assert.equal(scene.step().do, 'wait');
});

test('released or expired, the next wake follows; the worker before is fenced off', () => {
  const scene = Scene.with(PULL, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const first = scene.wakes('events/a');
  scene.claim('OK', 'one');
  scene.does('OK', { op: 'release', ...scene.about, wake: first, generation: 1 });
  scene.does('FENCED', { op: 'release', ...scene.about, wake: first, generation: 1 });
  const second = scene.wakes('events/a');
  scene.claim('OK', 'two');
  scene.nowMs += LEASE_MS;
  assert.deepEqual(scene.step(), { do: 'expire' });
  scene.does('OK', { op: 'expire', ...scene.about, wake: second, until: scene.sub.leaseUntilMs, next: -1 });
  scene.ack('FENCED', second, [['events/a', 1, 10]], true, 2);
  assert.equal(scene.acked('events/a'), 0);
  scene.wakes('events/a');
  assert.equal(scene.sub.generation, 3);
});

test('in-flight requests of a deleted subscription change nothing, even if it was recreated', () => {
  const scene = Scene.with(PULL, ['events/a', 1, 0]);
  scene.append('events/a', 10);
  const wake = scene.wakes('events/a');
  scene.claim('OK', 'one');
  scene.does('OK', { op: 'delete', ...scene.about });
  scene.does('SUBSCRIPTION_NOT_FOUND', { op: 'ack', ...scene.about, wake, generation: 1, acks: [], done: true });
  const links = [['events/a', 1, 0]] as const;
  scene.does('CREATED', { op: 'create', ...scene.about, config: PULL, hash: '', base: '', links });
  scene.claim('OK', 'two');
  scene.ack('FENCED', wake, [['events/a', 1, 10]], true, 1);
  assert.equal(scene.acked('events/a'), 0);
});

test('a clock that was ahead and is right again stops nothing', () => {
  const late = Scene.with(WEBHOOK, ['events/a', 1, 0]);
  late.nowMs += 10_000_000;
  late.append('events/a', 10);
  const wake = late.wakes('events/a');
  late.does('OK', { op: 'failed', ...late.about, wake, next: late.nowMs + 60_000 });
  assert.equal(late.step().do, 'wait');
  late.nowMs -= 3_600_000;
  assert.equal(late.step().do, 'expire', 'the lease was given by that clock');
  late.does('OK', { op: 'expire', ...late.about, wake, until: late.sub.leaseUntilMs, next: -1 });
  assert.equal(late.step().do, 'wake');

  const pull = Scene.with(PULL, ['events/a', 1, 0]);
  pull.nowMs += 10_000_000;
  pull.append('events/a', 10);
  pull.claim('OK', 'me');
  pull.nowMs -= 60_000;
  assert.equal(pull.step().do, 'wait', 'clocks of nodes are never quite together');
  pull.nowMs -= 3_600_000;
  assert.equal(pull.step().do, 'expire');
});
