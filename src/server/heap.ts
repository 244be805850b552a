/**
 * How far V8 lets the old generation grow between two collections. By itself it chooses about half as much again as what is
 * alive, because a collection of a small heap pauses the thread for a moment only; what the collection costs on the helper
 * threads it does not count. A shard keeps some 15 MB alive and lets go of 1.2 KB of buffers with each append, so that it was
 * collected twice a second: a sixth of all CPU time of a cluster under load. The factor applies to every thread of the
 * process; V8 takes up to four for a busy heap by itself, and never goes beyond half of what is left to its limit.
 */
import { setFlagsFromString } from 'node:v8';

/** Garbage that may gather, in percent of what is alive. */
const GROWTH_PERCENT = 300;

/** Before the first thread is started. */
export function collectSeldom(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
}
