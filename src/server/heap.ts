/**
 * Limits the growth of V8's old generation between two collections. By default V8 allows about half of the live size,
 * because collecting a small heap pauses the thread only briefly; it ignores the cost on the helper threads. A shard
 * keeps some 15 MB alive and frees 1.2 KB of buffers with each append, so it was collected twice a second: a sixth of
 * all CPU time of a cluster under load. The factor applies to every thread of the process. V8 itself uses up to four
 * for a busy heap, and never more than half of the remaining limit.
 */
import { setFlagsFromString } from 'node:v8';

/** Garbage that may accumulate, in percent of the live size. */
const GROWTH_PERCENT = 300;

/** Before the first thread is started. */
export function collectSeldom(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
}
