// Bounds of tracing without a node: what waits while the receiver hangs, and how many requests a second are followed.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Allowance } from '../../src/tracing/otlp-traces.ts';
import { type Tracing, openTracing } from '../../src/tracing/tracing.ts';
import { NodeLog } from '../../src/logging/logger.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { OtlpReceiver } from '../support/otlp-receiver.ts';

const receiver = await OtlpReceiver.start();
after(() => receiver.close());

function tracingAt(monotonicMs: () => number): Promise<Tracing> {
  const node = { id: 1, cluster: 'c', version: '0' };
  const runtime = { ...PROCESS_RUNTIME, monotonicMs };
  const config = { endpoint: receiver.url, sampleRatio: 1, token: undefined };
  return openTracing({ node, log: NodeLog.open(undefined).logger('test'), runtime }, config);
}

function follow({ traces }: Tracing, count: number, traceparent: string): void {
  for (let i = 0; i < count; i++) traces?.begin(traceparent)?.end({ name: 'GET', attributes: {}, isFailed: false });
}

test('a hundred requests a second are followed, of those that clients choose and of the others', async () => {
  let clockMs = 1000;
  const tracing = await tracingAt(() => clockMs);
  const counted = (): readonly (number | undefined)[] => {
    const { traced_requests: followed, traced_requests_left_out: leftOut } = tracing.metrics();
    return [followed, leftOut];
  };
  follow(tracing, 300, `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`);
  assert.deepEqual(counted(), [100, 200]);
  // They have taken nothing from the sample.
  follow(tracing, 300, '');
  assert.deepEqual(counted(), [200, 400]);
  clockMs += 500;
  follow(tracing, 300, '');
  assert.deepEqual(counted(), [250, 650]);
});

test('a receiver that hangs: spans wait up to the bound, the rest is lost', async () => {
  receiver.behaviour = 'hang';
  let clockMs = 0;
  // A second goes by from one request to the next, so that the queue is the only bound.
  const tracing = await tracingAt(() => (clockMs += 1000));
  follow(tracing, 3000, '');
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
