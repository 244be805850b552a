// One writer that waits for each answer: what an append costs when nothing can be batched with it.

import { summarize, type LoadResult } from '../stats.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { Exchange, httpFraming, httpRequest, redisAppend, respFraming, statusOf } from './exchange.ts';

export async function runSingleWriter(
  target: Running,
  stream: string,
  payloadBytes: number,
  durationMs: number,
): Promise<LoadResult> {
  const redis = target.protocol === 'redis';
  const payload = Buffer.alloc(payloadBytes, 'x');
  const message = redis
    ? redisAppend(stream, payload)
    : httpRequest({ method: 'POST', path: streamPath(stream), contentType: 'application/octet-stream', body: payload });
  const exchange = await Exchange.open(target.port, redis ? respFraming : httpFraming);
  const samples: number[] = [];
  let failed = 0;
  const startMs = performance.now();
  let endMs = startMs;
  while (endMs - startMs < durationMs) {
    const answer = await exchange.send(message);
    const now = performance.now();
    samples.push(now - endMs);
    endMs = now;
    const good = redis ? answer[0] === 0x24 /* $: the id of the entry */ : statusOf(answer) < 300;
    if (!good) failed++;
  }
  exchange.close();
  const seconds = (endMs - startMs) / 1000;
  return {
    ratePerSecond: (samples.length - failed) / seconds,
    bytesPerSecond: Number.NaN,
    ...summarize(Float64Array.from(samples)),
    requests: samples.length,
    failed,
    failures: failed === 0 ? '' : `${failed} refused`,
  };
}
