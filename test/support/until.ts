import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

/** There is no event across processes for most of what tests await, so it is asked for at this pace. */
const POLL_MS = 50;
/** Awaited things take seconds; on a machine with ten times as much work as cores it may take minutes. */
export const PATIENCE_MS = 120_000;

/** Asks repeatedly until it is true. Fails after `timeoutMs` and names what was awaited. */
export async function until(
  what: string | (() => string),
  isTrue: () => Promise<boolean> | boolean,
  timeoutMs = PATIENCE_MS,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await isTrue())) {
    const text = typeof what === 'string' ? what : what();
    assert(performance.now() < deadlineMs, `not within ${timeoutMs} ms: ${text}`);
    await delay(POLL_MS);
  }
}
