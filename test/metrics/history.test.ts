// A node keeps some of its metrics: which samples stay, and how many.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MetricsHistory } from '../../src/metrics/history.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const DAY = 24 * HOUR;
const STEP = 10 * SECOND;
const SAMPLES_MAX = 1024;

function timesOf(history: MetricsHistory): number[] {
  const { rows } = JSON.parse(history.json()) as { rows: readonly (readonly [number])[] };
  return rows.map(([atMs]) => atMs);
}

test('all of the time since the start is there, finer where it is younger, in a bounded number of samples', () => {
  const history = new MetricsHistory(new FakeRuntime());
  for (let atMs = 0; atMs < 100 * DAY; atMs += HOUR / 2) history.add(atMs, {});
  assert(timesOf(history).length > SAMPLES_MAX / 4);
  const end = 101 * DAY;
  for (let atMs = 100 * DAY; atMs <= end; atMs += STEP) history.add(atMs, {});
  const times = timesOf(history);
  assert(times.length > SAMPLES_MAX / 2 && times.length <= SAMPLES_MAX, String(times.length));
  assert.deepEqual([times[0], times.at(-1)], [0, end]);
  const longest = (from: number, to: number): number => {
    const some = times.filter((atMs) => atMs >= from && atMs <= to);
    return Math.max(...some.slice(1).map((atMs, i) => atMs - (some[i] ?? 0)));
  };
  assert.equal(longest(end - HOUR / 2, end), STEP);
  assert.equal(longest(end - 3 * HOUR, end), 60 * SECOND);
  assert.equal(longest(end - DAY + HOUR, end), 300 * SECOND);
  assert(longest(0, end) <= 8 * HOUR);
});

test('an answer stays below a megabyte, with many cores and large numbers too', () => {
  const history = new MetricsHistory(new FakeRuntime());
  const large = Number.MAX_SAFE_INTEGER;
  const latency = { count: large, buckets: Array<number>(18).fill(1_000_000_000) };
  const metrics = { latency_us: { append: latency, read: latency }, wal_sync_ns: large, process_rss_bytes: large };
  for (let i = 0; i < SAMPLES_MAX; i++)
    history.add(i * DAY, { ...metrics, mailbox_depths: Array<number>(16).fill(1_000_000) });
  assert(history.json().length < 1_000_000, String(history.json().length));
});

test('samples are taken at the same moments everywhere; what a node cannot tell is left out', async () => {
  const runtime = new FakeRuntime();
  runtime.wallMs = 5_000_000_003;
  const history = new MetricsHistory(runtime);
  let reads = 0;
  history.begin(() => Promise.resolve(++reads === 2 ? undefined : { appended_bytes: reads }));
  await runtime.pass(4 * STEP);
  const first = 5_000_010_000;
  assert.deepEqual(timesOf(history), [first, first + 2 * STEP, first + 3 * STEP]);
  history.end();
  await runtime.pass(4 * STEP);
  assert.equal(reads, 4);
});

test('a wall clock that is set by more than a step starts the history again', async () => {
  for (const jump of [-HOUR, HOUR, 400 * DAY, -400 * DAY, STEP + 1, -STEP - 1]) {
    const runtime = new FakeRuntime();
    runtime.wallMs = 1000 * DAY;
    const history = new MetricsHistory(runtime);
    history.begin(() => Promise.resolve({}));
    await runtime.pass(HOUR);
    const before = timesOf(history);
    assert(before.length > 200 && before.at(-1) === runtime.wallMs, String(before.length));
    runtime.wallMs += jump;
    await runtime.pass(2 * STEP);
    const jumped = timesOf(history);
    assert(jumped.length <= 2 && jumped.every((atMs) => Math.abs(runtime.wallMs - atMs) <= 2 * STEP), String(jumped));
    // The first sample after the jump is not the last one that stays.
    await runtime.pass(HOUR);
    const times = timesOf(history);
    assert.deepEqual([times.length > 200, times[0]], [true, jumped[0]], String(jump));
    history.end();
  }
});

test('a clock that is slewed, or set by up to a step, keeps the history in order', async () => {
  const runtime = new FakeRuntime();
  runtime.wallMs = 1000 * DAY;
  const history = new MetricsHistory(runtime);
  history.begin(() => Promise.resolve({}));
  await runtime.pass(STEP);
  const first = timesOf(history)[0];
  for (let i = 0; i < 100; i++) {
    runtime.wallMs += i % 20 === 0 ? -STEP : 1001;
    await runtime.pass(STEP);
  }
  const times = timesOf(history);
  assert(times.length > 80, String(times.length));
  assert.equal(times[0], first);
  assert.deepEqual(
    times,
    [...new Set(times)].sort((a, b) => a - b),
  );
  history.end();
});
