import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALL_GROUPS, requestFor } from '../../src/protocol/request.ts';
import { Harness, find } from './harness.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

function list(harness: Harness, prefix: string, after: string, limit: number): string[] {
  const request = requestFor(QUERIES.list, ALL_GROUPS, { bucket: 'bucket', prefix, after, limit });
  const slot = harness.push(request);
  const listed = QUERIES.list.result.read(find(harness.turn(), slot));
  return listed.map((one) => one.stream_id);
}

test('pages of a listing over several groups hold every name once, in the order of their bytes', () => {
  const harness = new Harness();
  const names = ['a', 'a/b', 'ab', 'b', 'é', '\ufeffx', '\uff5e', '\u{1F600}', '\u{1F600}a', '\u{10FFFF}'];
  names.forEach((name, i) => harness.create(i % 4, name));
  harness.turn();
  const sorted = [...names].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  for (const limit of [1, 2, 3, 100]) {
    const seen: string[] = [];
    for (let page = list(harness, '', '', limit); page.length > 0; page = list(harness, '', seen.at(-1) ?? '', limit)) {
      seen.push(...page);
    }
    assert.deepEqual(seen, sorted, `limit ${limit}`);
  }
  assert.deepEqual(list(harness, 'a', 'a', 100), ['a/b', 'ab']);
  assert.deepEqual(list(harness, 'a', 'b', 100), []);
  assert.deepEqual(list(harness, 'b', 'a', 100), ['b']);
});

test('a bucket is the sum of its groups', () => {
  const harness = new Harness();
  for (let group = 0; group < 4; group++) harness.create(group, 's', { body: 'x'.repeat(10 + group) });
  harness.create(0, 't', { type: 'application/json', body: '[1,2,3]' });
  harness.turn();
  const request = requestFor(QUERIES.bucket, ALL_GROUPS, { bucket: 'bucket' });
  const slot = harness.push(request);
  const reply = find(harness.turn(), slot);
  const { streams, exists } = QUERIES.bucket.result.read(reply);
  assert.deepEqual([streams, exists], [5, true]);
  const usage = harness.push(requestFor(QUERIES.usage, ALL_GROUPS, { after: '', limit: 0 }));
  assert.deepEqual(QUERIES.usage.result.read(find(harness.turn(), usage)).rows, [['bucket', 52, 7, 5, 52, 5]]);
});

test('usage of named buckets is theirs and of no others, in the order of their bytes', () => {
  const harness = new Harness();
  for (let group = 0; group < 4; group++) harness.create(group, 's', { body: 'x'.repeat(10 + group) });
  harness.turn();
  const names = ['other', 'é', 'bucket', ''];
  const slot = harness.push(requestFor(QUERIES.usage, ALL_GROUPS, { after: 'z', limit: 1, names }));
  const { rows, hasMore } = QUERIES.usage.result.read(find(harness.turn(), slot));
  assert.deepEqual([rows, hasMore], [[['bucket', 46, 4, 4, 46, 4]], false]);
});
