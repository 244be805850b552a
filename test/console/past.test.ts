// Plots of the time before the page was opened.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { History } from '../../src/console/model/history.ts';
import { samplesIn, valuesBefore } from '../../src/console/model/past.ts';
import { PLOTS, valuesOf } from '../../src/console/model/plots.ts';
import { type Sample, answered } from '../../src/console/model/samples.ts';
import { MetricsHistory } from '../../src/metrics/history.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const STEP = 10_000;

test('every plot shows the past with the values that it would have had', async (t) => {
  const server = new TestServer({ cores: 2, groups: 2 });
  t.after(() => server.dispose());
  await server.start();
  // Nothing waits for the first look at the volume.
  await until('the free bytes of the volume', async () => (await server.metrics())['volume_free_bytes'] !== undefined);
  const before = await server.metrics();
  await server.client.expect(201, 'PUT', '/b/s', { 'content-type': 'text/plain' });
  await server.client.expect(204, 'POST', '/b/s', { 'content-type': 'text/plain' }, 'x');
  await server.client.expect(200, 'GET', '/b/s?offset=-1');
  const after = await server.metrics();
  const kept = new MetricsHistory(new FakeRuntime());
  kept.add(STEP, before);
  kept.add(2 * STEP, after);
  const values = valuesBefore(samplesIn(1, JSON.parse(kept.json())));
  assert.deepEqual([...values.keys()], [STEP, 2 * STEP]);
  assert.deepEqual(values.get(2 * STEP), valuesOf([answered(1, 2 * STEP, after)], [answered(1, STEP, before)]));
  const shown = [...(values.get(2 * STEP)?.keys() ?? [])].map((name) => name.split('/')[0]);
  assert.deepEqual(new Set(shown), new Set(PLOTS.map(({ id }) => id)));
});

const sample = (nodeId: number, atMs: number, more: object = {}): Sample => {
  return { nodeId, atMs, metrics: { responses_by_status: { 200: atMs / 100 }, ...more }, report: undefined, error: '' };
};

test('nodes are added up only where all that had started have a sample', () => {
  const samples = [0, 1, 2, 3, 4].map((i) => sample(1, i * STEP)).concat([2, 4].map((i) => sample(2, i * STEP)));
  const sums = [...valuesBefore(samples)].map(([atMs, values]) => [atMs / STEP, values.get('statuses/2xx')]);
  assert.deepEqual(sums, [
    [0, undefined],
    [1, 10],
    [2, 10],
    [4, 20],
  ]);
});

test('what is no past is none, and reaches no prototype', () => {
  for (const odd of [
    undefined,
    null,
    1,
    [],
    {},
    { columns: 1, rows: [] },
    { columns: [], rows: [1, [], ['x'], [null]] },
  ])
    assert.deepEqual(samplesIn(1, odd), []);
  const answer = JSON.parse(
    '{"columns":["__proto__.hurt","a","a.b"],"rows":[[1,2,3,4]],"__proto__":{"hurt":2}}',
  ) as object;
  const [odd] = samplesIn(1, answer);
  assert.equal(odd?.atMs, 1);
  assert.equal(Reflect.get({}, 'hurt'), undefined);
  const many = { columns: Array<string>(5000).fill('x'), rows: Array.from({ length: 5000 }, (_, i) => [i]) };
  assert.equal(samplesIn(1, many).length, 4096);
});

test('the past comes in front of what the page saw, and a page that stays open keeps both', () => {
  const history = new History();
  history.add(100 * STEP, new Map([['a/node 1', 5]]));
  const past = [98, 99, 100, 101].map(
    (i) =>
      [
        i * STEP,
        new Map([
          ['a/node 1', i],
          ['a/node 2', -i],
        ]),
      ] as const,
  );
  history.precede(new Map(past));
  assert.deepEqual(history.window(['a/node 1', 'a/node 2'], Infinity), [
    [980, 990, 1000],
    [98, 99, 5],
    [-98, -99, null],
  ]);
  assert.equal(history.sinceMs, 98 * STEP);
  for (let i = 1; i < 30_000; i++) history.add(100 * STEP + i * 2000, new Map([['a/node 1', i]]));
  assert.equal(history.sinceMs, 98 * STEP);
  assert(history.length <= 10_800);
  const [times, values] = history.window(['a/node 1'], 3600);
  assert.deepEqual([times.length, values?.at(-1)], [1801, 29_999], 'the newest are all there');
});
