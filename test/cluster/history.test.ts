// The checker of the fault tests finds what it is there to find.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkStream, newAppend, newStream, newTally, type Outcome, type StreamHistory } from './history.ts';

/** Three appends of one writer with the given outcomes, acknowledged at their places. */
function history(...outcomes: Outcome[]): StreamHistory {
  const stream = newStream('b', 's');
  let end = 0;
  outcomes.forEach((outcome, number) => {
    const append = newAppend(stream, 1, number, 3);
    append.outcome = outcome;
    end += append.text.length;
    if (outcome === 'acknowledged') append.end = end;
  });
  return stream;
}

const bytes = (...numbers: number[]): string => numbers.map((number) => `1:${number}:xxx\n`).join('');
const check = (stream: StreamHistory, content: string): void => checkStream(stream, content, newTally());

test('what is right passes', () => {
  check(history('acknowledged', 'acknowledged', 'unknown'), bytes(0, 1));
  check(history('acknowledged', 'acknowledged', 'unknown'), bytes(0, 1, 2));
  check(history('acknowledged', 'acknowledged', 'refused'), bytes(0, 1));
});

test('loss, repetition, exchange, damage and a broken promise are found', () => {
  const three = (): StreamHistory => history('acknowledged', 'acknowledged', 'acknowledged');
  assert.throws(() => check(three(), bytes(0, 1)), /acknowledged .* and is lost/);
  assert.throws(() => check(three(), bytes(0, 1, 1, 2)), /there twice/);
  assert.throws(() => check(three(), bytes(1, 0, 2)), /another offset|comes after/);
  assert.throws(() => check(three(), bytes(0, 1, 2).replace('xxx', 'xyx')), /other bytes/);
  assert.throws(() => check(three(), bytes(0, 1, 2, 3)), /never sent/);
  assert.throws(() => check(three(), bytes(0, 1, 2).slice(0, -1)), /inside an append/);
  assert.throws(() => check(history('acknowledged', 'acknowledged', 'refused'), bytes(0, 1, 2)), /nothing was done/);
});
