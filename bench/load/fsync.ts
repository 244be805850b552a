// The cost of one fsync on this disk, now: measured in the same run as the appends, because on a shared machine it
// changes by the hour and the goal for append latency is stated relative to it.

import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { summarize, type LoadResult } from '../stats.ts';

const BLOCK_BYTES = 4096;
/** `dd bs=1M`. */
const LARGE_BLOCK_BYTES = 1024 * 1024;

export interface FsyncFigures {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly count: number;
}

/** Appends 4 KiB and calls fdatasync, over and over: the cheapest durable write a log can make. Blocks the thread. */
export function measureFsync(dir: string, durationMs: number): FsyncFigures {
  const fd = openSync(join(dir, 'fsync-probe'), 'w');
  const block = Buffer.alloc(BLOCK_BYTES, 'x');
  const samples: number[] = [];
  const end = performance.now() + durationMs;
  try {
    for (let before = performance.now(); before < end; before = performance.now()) {
      writeSync(fd, block);
      fdatasyncSync(fd);
      samples.push(performance.now() - before);
    }
  } finally {
    closeSync(fd);
  }
  const { p50Ms, p99Ms } = summarize(Float64Array.from(samples));
  return { p50Ms, p99Ms, count: samples.length };
}

/** Writes bodies one after the other to a file that grows, with an fdatasync after each. Blocks the thread. */
export function writeBodies(dir: string, bodyBytes: number, durationMs: number, countMax: number): LoadResult {
  const fd = openSync(join(dir, 'bodies'), 'w');
  const block = Buffer.alloc(Math.min(bodyBytes, LARGE_BLOCK_BYTES), 'x');
  const samples: number[] = [];
  const startMs = performance.now();
  let endMs = startMs;
  try {
    while (endMs - startMs < durationMs && samples.length < countMax) {
      for (let left = bodyBytes; left > 0; left -= block.length) writeSync(fd, block, 0, Math.min(left, block.length));
      fdatasyncSync(fd);
      const nowMs = performance.now();
      samples.push(nowMs - endMs);
      endMs = nowMs;
    }
  } finally {
    closeSync(fd);
  }
  const ratePerSecond = (1000 * samples.length) / (endMs - startMs);
  return {
    ...{ ratePerSecond, bytesPerSecond: ratePerSecond * bodyBytes, requests: samples.length, failed: 0, failures: '' },
    ...summarize(Float64Array.from(samples)),
  };
}
