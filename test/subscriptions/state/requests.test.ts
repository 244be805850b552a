import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SUBSCRIPTION_BODY_BYTES_MAX, SUBSCRIPTION_LINKS_MAX } from '../../../src/base/limits.ts';
import type { QueryResult } from '../../../src/protocol/query-string.ts';
import {
  parseBody,
  parseConfig,
  parsePath,
  parseStreams,
  parseWakeRequest,
  parseWorker,
} from '../../../src/subscriptions/state/requests.ts';

function value<T>(parsed: QueryResult<T>): T {
  assert(parsed.ok, 'it is accepted');
  return parsed.value;
}

const HOOK = { type: 'webhook', pattern: 'events/*', webhook: { url: 'https://x.example/' } };

test('equal configurations become equal texts', () => {
  const one = { ...HOOK, streams: ['/b', 'a', 'b', '_default/a'], lease_ttl_ms: 30_000, wake_stream: 'ignored/here' };
  const other = { streams: ['a', 'b'], ...HOOK, description: null };
  assert.equal(JSON.stringify(value(parseConfig(one))), JSON.stringify(value(parseConfig(other))));
  assert.deepEqual(value(parseConfig(one)).streams, ['a', 'b']);
});

test('a pattern names streams as their paths do', () => {
  for (const [sent, kept] of [
    ['/events/*', 'events/*'],
    ['events/*/', 'events/*/'],
    ['_default/a/', '_default/a/'],
    ['**/', '**/'],
    ['_default/*', '*'],
    ['_default/**', '_default/**'],
    ['_default/a/*', '_default/a/*'],
    ['**', '**'],
  ]) {
    assert.equal(value(parseConfig({ ...HOOK, pattern: sent })).pattern, kept);
  }
});

test('what no subscription can be is refused with a sentence', () => {
  const bad: readonly unknown[] = [
    null,
    [],
    'x',
    { ...HOOK, type: 'push' },
    { ...HOOK, pattern: undefined },
    { ...HOOK, pattern: undefined, streams: [] },
    { ...HOOK, pattern: '' },
    { ...HOOK, pattern: '/' },
    { ...HOOK, pattern: '//b' },
    { ...HOOK, pattern: 'a/' },
    { ...HOOK, pattern: '*/' },
    { ...HOOK, pattern: 'a//..' },
    { ...HOOK, pattern: '__ds/*' },
    { ...HOOK, pattern: 'x'.repeat(1025) },
    { ...HOOK, streams: 'a' },
    { ...HOOK, streams: [1] },
    { ...HOOK, streams: ['__ds/log'] },
    { ...HOOK, streams: ['a/../b'] },
    { ...HOOK, streams: ['a/__b'] },
    { ...HOOK, streams: ['v1/b'] },
    { ...HOOK, webhook: undefined },
    { ...HOOK, webhook: { url: '' } },
    { ...HOOK, lease_ttl_ms: 999 },
    { ...HOOK, lease_ttl_ms: 600_001 },
    { ...HOOK, lease_ttl_ms: 1000.5 },
    { ...HOOK, lease_ttl_ms: '1000' },
    { ...HOOK, description: 7 },
    { ...HOOK, description: 'x'.repeat(1025) },
    { type: 'pull-wake', pattern: 'a' },
    { type: 'pull-wake', pattern: 'a', wake_stream: '__ds/log' },
    { type: 'pull-wake', streams: ['a', 'wake/a'], wake_stream: '/wake/a' },
  ];
  for (const body of bad) {
    const parsed = parseConfig(body);
    assert(!parsed.ok && parsed.reason.length > 10, JSON.stringify(body));
  }
});

test('every stream has one path', () => {
  assert.equal(value(parsePath('/a/b')), 'a/b');
  // Slashes inside and at the end are part of the name.
  assert.equal(value(parsePath('a/b/')), 'a/b/');
  assert.equal(value(parsePath('a//b')), 'a//b');
  assert.equal(value(parsePath('_default/b/')), '_default/b/');
  assert.equal(value(parsePath('_default/x')), 'x');
  assert.equal(value(parsePath('_default/x/y')), '_default/x/y');
  for (const path of [
    '',
    '/',
    'a/',
    '//b',
    'a//..',
    '__ds',
    '__ds/log',
    'a/__b',
    '..',
    'a/..',
    'a\0b',
    'v1/x',
    'x'.repeat(1100),
    7,
  ]) {
    assert(!parsePath(path).ok, String(path));
  }
});

test('bodies of wakes', () => {
  const wake = { wake_id: 'w', generation: 1 };
  assert.deepEqual(value(parseWakeRequest(wake)), { wakeId: 'w', generation: 1, acks: [], done: false });
  const acks = [
    { stream: '/a/b', offset: '-1' },
    { path: 'c', offset: '7' },
  ];
  assert.deepEqual(value(parseWakeRequest({ ...wake, acks, done: true })).acks, [
    ['a/b', '-1'],
    ['c', '7'],
  ]);
  for (const body of [
    null,
    {},
    { wake_id: 'w' },
    { ...wake, generation: '1' },
    { ...wake, done: 'yes' },
    { ...wake, acks: {} },
    { ...wake, acks: [{ stream: 'a' }] },
    { ...wake, acks: [{ offset: '1' }] },
    { ...wake, acks: [{ stream: 'a', offset: 1 }] },
  ]) {
    assert(!parseWakeRequest(body).ok, JSON.stringify(body));
  }
  assert.equal(value(parseWorker({ worker: 'one' })), 'one');
  for (const body of [{}, { worker: '' }, { worker: 1 }, { worker: 'x'.repeat(257) }]) assert(!parseWorker(body).ok);
  assert.deepEqual(value(parseStreams({ streams: ['b', 'a', 'b'] })), ['a', 'b']);
  for (const body of [{}, { streams: [] }, { streams: 'a' }]) assert(!parseStreams(body).ok);
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test('a body may acknowledge as many streams as a subscription has, whatever they are called', () => {
  const acks = Array.from({ length: SUBSCRIPTION_LINKS_MAX }, (_, i) => ({
    stream: `bucket/{[,:"\\,,,,,,,,,,,,,,,,,,${i}`,
    offset: String(i),
  }));
  const body = bytes(JSON.stringify({ wake_id: 'w', generation: 1, acks, done: true }));
  assert(body.length < SUBSCRIPTION_BODY_BYTES_MAX);
  const { acks: parsed } = value(parseBody('wake', body));
  assert.deepEqual(parsed.at(-1), [acks.at(-1)?.stream, acks.at(-1)?.offset]);
});

test('a body that would take long to parse is refused before it is parsed', () => {
  const most = SUBSCRIPTION_BODY_BYTES_MAX;
  const members = Array.from({ length: 150_000 }, (_, i) => `"k${i}":1`);
  const shapes = [
    '['.repeat(most),
    `[${'{},'.repeat(most / 3 - 1)}{}]`,
    '{"a":'.repeat(most / 5),
    `{${members.join()}}`,
  ];
  for (const shape of shapes) {
    const answer = parseBody('wake', bytes(shape));
    assert.deepEqual(answer, { ok: false, reason: 'the body takes too much memory to be parsed' }, shape.slice(0, 10));
  }
  for (const body of [bytes(' '.repeat(most)), bytes('\0'.repeat(most)), bytes('"\\'), new Uint8Array(most).fill(0xff)])
    assert.deepEqual(parseBody('wake', body), { ok: false, reason: 'the body must be JSON in UTF-8' });
});
