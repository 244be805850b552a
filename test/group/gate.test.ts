// A bound that small bodies keep full: a large one gets its turn, and one that never returns does not block the others
// forever.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gate } from '../../src/group/gate.ts';

const MIB = 1024 * 1024;
const BOUND = 4 * MIB;
const SMALL = 1000;

/** A level that small bodies fill and that drains. */
class Tank {
  readonly gate = new Gate();
  clockMs = 0;
  level = BOUND - 10;
  readonly drainPerMs: number;

  constructor(drainPerMs: number) {
    this.gate.bytesMax = BOUND;
    this.drainPerMs = drainPerMs;
  }

  offer(bytes: number): boolean {
    const { gate, level, clockMs } = this;
    if (gate.hasRoom(level, bytes, clockMs)) {
      gate.passed(bytes, clockMs);
      this.level += bytes;
      return true;
    }
    gate.refused(bytes, clockMs);
    return false;
  }

  /** Small bodies come in all the time, more than drains; how many passed. */
  run(durationMs: number): number {
    let passed = 0;
    for (const end = this.clockMs + durationMs; this.clockMs < end; this.clockMs++) {
      this.level = Math.max(0, this.level - this.drainPerMs);
      for (let i = 0; i < 20; i++) if (this.offer(SMALL)) passed++;
    }
    return passed;
  }
}

for (const large of [300_000, 2 * MIB, BOUND, 5.4 * MIB, 32 * MIB]) {
  test(`a body of ${large} bytes passes within a few tries of a second`, () => {
    const tank = new Tank(5000);
    tank.run(1000);
    let tries = 1;
    for (; !tank.offer(large); tries++) {
      assert(tries < 4, `${tries} tries`);
      tank.run(1000);
    }
    tank.run(10_000);
    assert(tank.run(1000) > 1000, 'small ones pass again');
  });
}

test('one that does not come again holds the others up for five seconds, and not again at once', () => {
  const tank = new Tank(5000);
  tank.run(100);
  assert.equal(tank.offer(2 * MIB), false);
  assert.equal(tank.run(5000), 0);
  assert(tank.run(100) > 100);
  // Others reserve no sooner than this one had held.
  tank.run(1000);
  assert.equal(tank.offer(3 * MIB), false);
  assert(tank.run(100) > 100);
});

test('one that comes again and again, while nothing drains, holds the others up for 15 seconds at most', () => {
  const tank = new Tank(0);
  tank.level = BOUND - MIB;
  let heldMs = 0;
  assert.equal(tank.offer(2 * MIB), false);
  for (; !tank.offer(SMALL); heldMs += 500) {
    assert.equal(tank.offer(2 * MIB), false);
    tank.clockMs += 500;
    assert(heldMs < 20_000);
  }
  assert(heldMs <= 15_500, `${heldMs} ms`);
});

test('large bodies of many sizes in turn with small ones: all of them pass in the end', () => {
  const tank = new Tank(5000);
  const waiting = new Set([MIB, 2 * MIB, 5 * MIB, 9 * MIB, 400_000]);
  let small = 0;
  for (let i = 0; i < 200 && waiting.size > 0; i++) {
    for (const bytes of waiting) if (tank.offer(bytes)) waiting.delete(bytes);
    small += tank.run(500);
  }
  assert.deepEqual([...waiting], []);
  assert(small > 1000);
});

test('small bodies that find no room reserve nothing', () => {
  const tank = new Tank(0);
  assert.equal(tank.offer(SMALL), false);
  assert.equal(tank.offer(10), true);
});
