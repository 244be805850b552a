import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CURSOR_JITTER_SPANS_MAX, cursorFloor, cursorSpan } from '../../src/topics/events.ts';

test('spans of 20 s are counted from 2024-10-09', () => {
  assert.equal(cursorSpan(Date.parse('2024-10-09T00:00:00Z')), 0);
  assert.equal(cursorSpan(Date.parse('2024-10-09T00:00:19.999Z')), 0);
  assert.equal(cursorSpan(Date.parse('2024-10-09T00:00:20Z')), 1);
  assert.equal(cursorSpan(Date.parse('2024-10-10T00:00:00Z')), 4320);
  // A clock that is wrong by years must not produce a negative cursor.
  assert.equal(cursorSpan(0), 0);
});

test('a client that is behind the clock gets the current span', () => {
  assert.equal(cursorFloor(undefined, 100, 0.5), 0);
  assert.equal(cursorFloor(0, 100, 0.5), 0);
  assert.equal(cursorFloor(99, 100, 0.5), 0);
});

test('a client that is not behind gets more than it sent, by 1 to 3600 s', () => {
  for (const requested of [100, 101, 5000]) {
    assert.equal(cursorFloor(requested, 100, 0), requested + 1);
    assert.equal(cursorFloor(requested, 100, 0.999999), requested + CURSOR_JITTER_SPANS_MAX);
  }
});

test('a cursor that cannot be counted up exactly is taken as none', () => {
  assert.equal(cursorFloor(Number.MAX_SAFE_INTEGER, 100, 0.5), 0);
  assert.equal(cursorFloor(Infinity, 100, 0.5), 0);
});
