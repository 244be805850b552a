// Bounds of tracing without a node: what waits while the receiver hangs, and how many requests a second are followed.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Allowance } from '../../src/tracing/allowance.ts';
import { openTracing } from '../../src/tracing/tracing.ts';
import { createLogger } from '../../src/logging/logger.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';

const receiver = await OtlpReceiver.start();
after(() => receiver.close());

test('a receiver that hangs: spans wait up to the bound, the rest is lost', async () => {
  receiver.behaviour = 'hang';
  let clockMs = 0;
  const tracing = await openTracing(
    {
      node: { id: 1, cluster: 'c', version: '0' },
      log: createLogger('test'),
      // A second goes by from one request to the next, so that the queue is the only bound.
      runtime: { ...PROCESS_RUNTIME, monotonicMs: () => (clockMs += 1000) },
    },
    { endpoint: receiver.url, sampleRatio: 1, token: undefined },
  );
  for (let i = 0; i < 3000; i++) {
    tracing.traces?.begin('')?.end({ name: 'GET', attributes: { 'url.path': '/x' }, isFailed: false });
  }
  assert.deepEqual(tracing.metrics(), {
    traced_requests: 3000,
    traced_requests_left_out: 0,
    trace_spans_exported: 0,
    trace_spans_lost: 952,
  });
  const startedMs = performance.now();
  await tracing.stop();
  assert(performance.now() - startedMs >= 1900, 'it waited for the receiver');
});

test('an allowance is saved up for one second, and no longer', () => {
  let clockMs = 0;
  const allowance = new Allowance(10, () => clockMs);
  const taken = (): number => Array.from({ length: 50 }, () => allowance.take()).filter(Boolean).length;
  assert.equal(taken(), 10);
  assert.equal(taken(), 0);
  clockMs += 300;
  assert.equal(taken(), 3);
  clockMs += 60_000;
  assert.equal(taken(), 10);
});
