// The checker of the fault tests finds what it is there to find.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import {
  type Outcome,
  type StreamHistory,
  Shown,
  checkStream,
  lineOf,
  newAppend,
  newStream,
  newTally,
} from './history.ts';

/** Large enough that it is padded with marks. */
const PAD_BYTES = 5000;

/** Three appends of one writer with the given outcomes, acknowledged at their places. */
function history(isJson: boolean, ...outcomes: Outcome[]): StreamHistory {
  const stream = newStream('b', 's', isJson);
  let end = 0;
  outcomes.forEach((outcome, number) => {
    const append = newAppend(stream, 1, number, PAD_BYTES);
    append.outcome = outcome;
    end += lineOf(stream, append).length;
    if (outcome === 'acknowledged') append.end = end;
  });
  return stream;
}

for (const isJson of [false, true]) {
  const kind = isJson ? 'JSON' : 'text';
  const line = (number: number): Buffer => {
    const stream = newStream('b', 's', isJson);
    return lineOf(stream, newAppend(stream, 1, number, PAD_BYTES));
  };
  const bytes = (...numbers: number[]): Buffer => Buffer.concat(numbers.map(line));
  const check = (stream: StreamHistory, content: Buffer): void => checkStream(stream, content, newTally());
  const three = (): StreamHistory => history(isJson, 'acknowledged', 'acknowledged', 'acknowledged');

  test(`${kind}: what is right passes`, () => {
    check(history(isJson, 'acknowledged', 'acknowledged', 'unknown'), bytes(0, 1));
    check(history(isJson, 'acknowledged', 'acknowledged', 'unknown'), bytes(0, 1, 2));
    check(history(isJson, 'acknowledged', 'acknowledged', 'refused'), bytes(0, 1));
  });

  test(`${kind}: loss, repetition, exchange, damage and a broken promise are found`, () => {
    assert.throws(() => check(three(), bytes(0, 1)), /acknowledged .* and is lost/);
    assert.throws(() => check(three(), bytes(0, 1, 1, 2)), /there twice/);
    assert.throws(() => check(three(), bytes(1, 0, 2)), /another offset|comes after/);
    const changed = bytes(0, 1, 2);
    changed.write('y', PAD_BYTES / 2);
    assert.throws(() => check(three(), changed), /other bytes/);
    assert.throws(() => check(three(), bytes(0, 1, 2, 3)), /never sent/);
    assert.throws(() => check(three(), bytes(0, 1, 2).subarray(0, -1)), /inside an append/);
    assert.throws(
      () => check(history(isJson, 'acknowledged', 'acknowledged', 'refused'), bytes(0, 1, 2)),
      /nothing was done/,
    );
  });

  test(`${kind}: pieces of a body that change places are found`, () => {
    const [first, second] = [1000, 2024].map((at) => line(0).subarray(at, at + 1024)) as [Buffer, Buffer];
    const exchanged = bytes(0, 1, 2);
    second.copy(exchanged, 1000);
    first.copy(exchanged, 2024);
    assert.throws(() => check(three(), exchanged), /other bytes/);
  });

  test(`${kind}: a reader that is shown a byte twice, not at all, another one or too many is found`, () => {
    const whole = bytes(0, 1, 2);
    const shown = (...parts: Buffer[]): (() => void) => {
      const reader = new Shown('a reader');
      for (const part of parts) reader.take(part);
      return () => reader.check(three(), whole, newTally());
    };
    const [a, b] = [whole.subarray(0, 4000), whole.subarray(4000, 9000)];
    shown(a, b)();
    assert.throws(shown(a, a, b), /showed bytes 4000 to 8000, which are not there/);
    assert.throws(shown(b), /showed bytes 0 to 5000, which are not there/);
    assert.throws(shown(a, Buffer.alloc(9, 'z')), /showed bytes 4000 to 4009, which are not there/);
    assert.throws(shown(whole, Buffer.from('x')), /in the end there are/);
  });
}
