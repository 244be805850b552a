import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * There is no event across processes for most of what tests await, so it is asked for: soon at first, then less often,
 * because a look at three nodes takes a few milliseconds of processor. It is noticed late by a sixth of the time that
 * it took, or by the longest pause.
 */
const PAUSE_MS_MIN = 10;
const PAUSE_MS_MAX = 100;
const PAUSE_PART = 1 / 6;
/** Awaited things take seconds; on a machine with ten times as much work as cores it may take minutes. */
export const PATIENCE_MS = 120_000;

/** Asks repeatedly until it is true. Fails after `timeoutMs` and names what was awaited. */
export async function until(
  what: string | (() => string),
  isTrue: () => Promise<boolean> | boolean,
  timeoutMs = PATIENCE_MS,
): Promise<void> {
  const sinceMs = performance.now();
  while (!(await isTrue())) {
    const text = typeof what === 'string' ? what : what();
    const passedMs = performance.now() - sinceMs;
    assert(passedMs < timeoutMs, `not within ${timeoutMs} ms: ${text}`);
    await delay(Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS_MIN, passedMs * PAUSE_PART)));
  }
}
