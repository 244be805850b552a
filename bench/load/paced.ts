// Appends at a fixed rate, regardless of the answer times (open loop): what a client sees that does not slow down with
// the server.

import { setTimeout as sleep } from 'node:timers/promises';
import { summarize, type LoadResult } from '../stats.ts';
import { Exchange, httpFraming, httpRequest, statusOf } from './exchange.ts';

const CONTENT_TYPE = 'application/octet-stream';

export interface PacedLoad {
  readonly port: number;
  /** Each has its own connection. */
  readonly paths: readonly string[];
  /** The rate of all connections together. */
  readonly ratePerSecond: number;
  readonly bodyBytes: number;
  readonly durationMs: number;
}

interface Tally {
  readonly samples: number[];
  failed: number;
}

export async function runPaced(load: PacedLoad): Promise<LoadResult> {
  const tally: Tally = { samples: [], failed: 0 };
  const startMs = performance.now();
  await Promise.all(load.paths.map((path, i) => lane(load, path, i / load.paths.length, startMs, tally)));
  const seconds = load.durationMs / 1000;
  const count = tally.samples.length;
  return {
    ratePerSecond: count / seconds,
    bytesPerSecond: (count * load.bodyBytes) / seconds,
    ...summarize(Float64Array.from(tally.samples)),
    requests: count + tally.failed,
    failed: tally.failed,
    failures: tally.failed === 0 ? '' : `${tally.failed} refused`,
  };
}

/**
 * One connection. An append that was due during the previous one counts from its due time: a stalled server shows in
 * all appends of that moment. A late timer on our side is not the server's fault.
 */
async function lane(load: PacedLoad, path: string, phase: number, startMs: number, tally: Tally): Promise<void> {
  const exchange = await Exchange.open(load.port, httpFraming);
  const message = httpRequest({
    method: 'POST',
    path,
    contentType: CONTENT_TYPE,
    body: Buffer.alloc(load.bodyBytes, 'x'),
  });
  const everyMs = (1000 * load.paths.length) / load.ratePerSecond;
  for (let dueMs = startMs + phase * everyMs; dueMs < startMs + load.durationMs; dueMs += everyMs) {
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const sinceMs = waitMs > 0 ? performance.now() : dueMs;
    const status = statusOf(await exchange.send(message));
    if (status < 300) tally.samples.push(performance.now() - sinceMs);
    else tally.failed++;
  }
  exchange.close();
}
