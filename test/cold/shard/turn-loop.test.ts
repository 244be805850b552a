// The loop that each part of the cold tier runs over the groups of its shard.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RowDamage } from '../../../src/base/row-damage.ts';
import { DAMAGED_MS, type NextVisit, OwnObjects, TurnLoop } from '../../../src/cold/shard/turn-loop.ts';

class Loop extends TurnLoop<string> {
  readonly onVisit: (work: string, loop: Loop) => NextVisit;
  readonly settled: string[] = [];

  constructor(works: readonly string[], onVisit: Loop['onVisit']) {
    super(works);
    this.onVisit = onVisit;
  }

  get clocks(): readonly number[] {
    return [this.nowMs, this.clockMs];
  }

  override wake(asked?: string): void {
    super.wake(asked);
  }

  protected override settle(work: string): void {
    this.settled.push(work);
  }

  protected override visit(work: string): NextVisit {
    return this.onVisit(work, this);
  }
}

interface Rig {
  readonly loop: Loop;
  /** The calls since the last look, in order. */
  readonly seen: () => string;
  readonly answers: Map<string, NextVisit>;
}

/** Three groups; a visit answers what `answers` holds for its group, else that it wants none. */
function newRig(): Rig {
  let calls = '';
  const answers = new Map<string, NextVisit>();
  const loop = new Loop(['a', 'b', 'c'], (work) => {
    calls += work;
    return answers.get(work) ?? Infinity;
  });
  const seen = (): string => {
    assert.deepEqual(loop.settled.splice(0), ['a', 'b', 'c'], 'every turn settles all groups');
    const text = calls;
    calls = '';
    return text;
  };
  return { loop, seen, answers };
}

test('all groups are visited when the first of them wants it, and not before', () => {
  const { loop, seen, answers } = newRig();
  answers.set('a', 500).set('b', 300);
  loop.turn(0, 100);
  assert.equal(seen(), 'abc');
  assert.equal(loop.dueAtMs, 300);
  loop.turn(0, 299);
  assert.equal(seen(), '');
  loop.turn(0, 300);
  assert.equal(seen(), 'abc');
});

test('when no group wants a visit the loop sleeps until it is woken', () => {
  const { loop, seen } = newRig();
  loop.turn(0, 1);
  assert.equal(seen(), 'abc');
  assert.equal(loop.dueAtMs, Infinity);
  loop.turn(0, 1e9);
  assert.equal(seen(), '');
  loop.wake();
  loop.turn(0, 1e9);
  assert.equal(seen(), 'abc');
});

test('a visit that takes the turn is the last; the next turn continues behind it, at once', () => {
  const { loop, seen, answers } = newRig();
  answers.set('b', 'took-turn').set('c', 'took-turn');
  loop.turn(0, 10);
  assert.equal(seen(), 'ab');
  assert.equal(loop.dueAtMs, 10);
  loop.turn(0, 10);
  assert.equal(seen(), 'c');
  loop.turn(0, 10);
  assert.equal(seen(), 'ab', 'no group is left out, however busy the others are');
});

test('a wake during a visit is not lost', () => {
  let visits = 0;
  const loop = new Loop(['a'], (_work, self) => {
    if (visits++ === 0) self.wake();
    return Infinity;
  });
  for (let turn = 0; turn < 3; turn++) loop.turn(0, 1);
  assert.equal(visits, 2);
});

test('a group with a damaged row is left alone for a while, however often others are visited, unless it is asked', () => {
  let damaged = true;
  let calls = '';
  const loop = new Loop(['a', 'b'], (work, { clocks }) => {
    calls += work;
    if (work === 'a' && damaged) throw new RowDamage(new Uint8Array(3), 'the test says so');
    return (clocks[1] ?? 0) + 1000;
  });
  const visits = (fromMs: number, untilMs: number): string => {
    calls = '';
    for (let clockMs = fromMs; clockMs < untilMs; clockMs += 1000) loop.turn(0, clockMs);
    return calls.replaceAll('b', '');
  };
  assert.equal(visits(0, DAMAGED_MS), 'a');
  assert.equal(calls.length, 1 + DAMAGED_MS / 1000);
  assert.equal(visits(DAMAGED_MS, 2 * DAMAGED_MS), 'a');
  loop.wake();
  loop.wake('a');
  assert.equal(visits(2 * DAMAGED_MS - 1, 2 * DAMAGED_MS), 'a');
  damaged = false;
  assert.equal(visits(2 * DAMAGED_MS, 3 * DAMAGED_MS - 1), '');
  assert.equal(visits(3 * DAMAGED_MS - 1, 3 * DAMAGED_MS + 10_000).length, 11);
});

test('visits see the clocks of their turn', () => {
  const clocks: (readonly number[])[] = [];
  const loop = new Loop(['a'], (_work, self) => {
    clocks.push(self.clocks);
    return 0;
  });
  loop.turn(7, 1);
  loop.turn(5, 2);
  assert.deepEqual(clocks, [
    [7, 1],
    [5, 2],
  ]);
});

test('an object is its own from its name on until its outcome is known, and of this run only', () => {
  let seq = 0;
  const own = new OwnObjects('a'.repeat(16), () => ++seq);
  const [first, second] = [own.begin(), own.begin()];
  assert.notDeepEqual(first, second);
  own.end(first);
  assert.deepEqual(
    [own.has(first), own.has(second), own.has({ ...second, run: 'b'.repeat(16) })],
    [false, true, false],
  );
});
