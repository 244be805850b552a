import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock, SLOT_MS, Timed } from '../../src/topics/clock.ts';
import { createRandom } from '../support/random.ts';

class Entry extends Timed {
  readonly fired: number[] = [];
  readonly #then: (entry: Entry) => void;

  constructor(then: (entry: Entry) => void = () => undefined) {
    super();
    this.#then = then;
  }

  onTime(clockMs: number): void {
    this.fired.push(clockMs);
    this.#then(this);
  }
}

function newClock(): { clock: Clock; at: (ms: number) => void } {
  let clockMs = 12_345.6;
  const start = clockMs;
  const clock = new Clock(
    () => clockMs,
    (error) => {
      throw error;
    },
  );
  return {
    clock,
    at(ms) {
      clockMs = start + ms;
      clock.advance();
    },
  };
}

test('an entry fires once, never early, at most a slot late', () => {
  const { clock, at } = newClock();
  const entry = new Entry();
  clock.schedule(entry, 1000);
  for (let ms = 0; ms < 1000; ms += 10) at(ms);
  assert.equal(entry.fired.length, 0);
  at(1000 + SLOT_MS);
  assert.equal(entry.fired.length, 1);
  at(5000);
  assert.equal(entry.fired.length, 1);
  assert.equal(clock.size, 0);
});

test('a cancelled or moved entry does not fire at the old time', () => {
  const { clock, at } = newClock();
  const cancelled = new Entry();
  const moved = new Entry();
  clock.schedule(cancelled, 100);
  clock.schedule(moved, 100);
  clock.schedule(moved, 10_000);
  clock.cancel(cancelled);
  clock.cancel(cancelled);
  at(9_000);
  assert.equal(moved.fired.length, 0);
  at(11_000);
  assert.equal(moved.fired.length, 1);
  assert.equal(cancelled.fired.length, 0);
});

test('an entry further away than a turn of the wheel waits its time', () => {
  const { clock, at } = newClock();
  const entry = new Entry();
  clock.schedule(entry, 3_600_000);
  for (let ms = 0; ms < 3_600_000; ms += 25_000) at(ms);
  assert.equal(entry.fired.length, 0);
  at(3_600_000 + SLOT_MS);
  assert.equal(entry.fired.length, 1);
});

test('after a long stall everything that is due fires', () => {
  const { clock, at } = newClock();
  const entries = Array.from({ length: 100 }, () => new Entry());
  for (const [i, entry] of entries.entries()) clock.schedule(entry, i * 500);
  at(10_000_000);
  for (const entry of entries) assert.equal(entry.fired.length, 1);
  assert.equal(clock.size, 0);
});

test('handlers may schedule and cancel while the slot fires', () => {
  const { clock, at } = newClock();
  const victim = new Entry();
  const again: Entry = new Entry((entry) => {
    if (entry.fired.length < 3) clock.schedule(entry, 100);
    clock.cancel(victim);
  });
  clock.schedule(again, 100);
  clock.schedule(victim, 100);
  for (let ms = 0; ms < 2000; ms += SLOT_MS) at(ms);
  assert.equal(again.fired.length, 3);
  assert.equal(victim.fired.length, 0);
  assert.equal(clock.size, 0);
});

test('random schedules, moves and cancels agree with a list', () => {
  const random = createRandom(0xc10c);
  const { clock, at } = newClock();
  const entries = Array.from({ length: 200 }, () => new Entry());
  const due = new Map<Entry, number>();
  let clockMs = 0;
  for (let round = 0; round < 5000; round++) {
    const entry = random.pick(entries);
    if (random.int(0, 3) === 0) {
      clock.cancel(entry);
      due.delete(entry);
    } else {
      const delayMs = random.int(0, 4999);
      clock.schedule(entry, delayMs);
      due.set(entry, clockMs + delayMs);
    }
    if (random.int(0, 2) !== 0) continue;
    const before = new Map(entries.map((each) => [each, each.fired.length]));
    clockMs += random.int(0, 299);
    at(clockMs);
    for (const each of entries) {
      const fired = each.fired.length - (before.get(each) ?? 0);
      const dueMs = due.get(each);
      if (fired === 0) {
        assert.ok(dueMs === undefined || dueMs + SLOT_MS > clockMs, `round ${round}: due ${dueMs}, now ${clockMs}`);
        continue;
      }
      assert.ok(
        fired === 1 && dueMs !== undefined && dueMs <= clockMs,
        `round ${round}: fired ${fired} times, due ${dueMs}`,
      );
      due.delete(each);
    }
  }
  assert.equal(clock.size, due.size);
  for (const entry of entries) clock.cancel(entry);
  assert.equal(clock.size, 0);
});

test('an entry that throws is logged and told, and those after it fire', () => {
  const errors: unknown[] = [];
  let clockMs = 0;
  const clock = new Clock(
    () => clockMs,
    (error, _, requestId) => errors.push([error, requestId]),
  );
  let told = 0;
  class Failing extends Entry {
    override get requestId(): string {
      return 'mine';
    }

    override onTimeFailed(): void {
      told++;
    }
  }
  const bug = new Error('a bug');
  const failing = new Failing(() => {
    throw bug;
  });
  const next = new Entry();
  clock.schedule(failing, 10);
  clock.schedule(next, 10);
  clockMs = 1000;
  clock.advance();
  assert.deepEqual([errors, told, next.fired.length, clock.size], [[[bug, 'mine']], 1, 1, 0]);
});
