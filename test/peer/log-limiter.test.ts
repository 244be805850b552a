import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogLimiter } from '../../src/peer/log-limiter.ts';

test('one line per subject and window; the next one says how many were left out', () => {
  const lines: string[] = [];
  let clockMs = 0;
  const limiter = new LogLimiter(
    (_level, message, fields) => lines.push(`${message} ${JSON.stringify(fields)}`),
    () => clockMs,
    1000,
  );
  for (let i = 0; i < 5; i++) limiter.warn('a', 'knock', { i });
  limiter.warn('b', 'knock', {});
  clockMs = 1000;
  limiter.warn('a', 'knock', {});
  assert.deepEqual(lines, ['knock {"i":0}', 'knock {}', 'knock {"suppressed":4}']);
});

test('a thousand subjects are not remembered', () => {
  let lines = 0;
  const limiter = new LogLimiter(
    () => lines++,
    () => 0,
    1000,
  );
  for (let i = 0; i < 1000; i++) limiter.warn(`10.0.0.${i}`, 'knock', {});
  limiter.warn('10.0.0.999', 'knock', {});
  assert.equal(lines, 1000);
  limiter.warn('10.0.0.0', 'knock', {});
  assert.equal(lines, 1001);
});
