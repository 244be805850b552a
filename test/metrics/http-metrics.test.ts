// Counters of the HTTP side.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpCounters } from '../../src/metrics/http-metrics.ts';

test('latencies by operation and counts by status', () => {
  const counters = new HttpCounters();
  for (let micros = 1; micros <= 1000; micros++) counters.response('append', 204, micros);
  counters.response('read', 404, 0);
  counters.response('read', 200, 1e12);
  counters.response('read', 200, 12.7);
  const { latency_buckets_us, latency_us, responses_by_status, responses_total } = counters.snapshot();
  const append = latency_us['append'];
  assert(append !== undefined);
  assert.equal(append.count, 1000);
  assert(Math.abs(append.p50 - 500) <= 8 && Math.abs(append.p99 - 990) <= 8 && Math.abs(append.max - 1000) <= 8);
  assert(append.p90 <= append.p99 && append.p99 <= append.p999 && append.p999 <= append.max);
  assert.equal(latency_us['read']?.count, 3);
  assert.equal(latency_us['create'], undefined);
  assert.deepEqual(append.buckets.slice(0, 5), [100, 150, 250, 500, 0]);
  assert.deepEqual([append.sum, append.buckets.length], [500_500, latency_buckets_us.length + 1]);
  const reads = latency_us['read']?.buckets ?? [];
  assert.deepEqual([reads[0], reads.at(-1), reads.reduce((sum, count) => sum + count, 0)], [2, 1, 3]);
  assert.deepEqual(responses_by_status, { 200: 2, 204: 1000, 404: 1 });
  assert.equal(responses_total, 1003);
});
