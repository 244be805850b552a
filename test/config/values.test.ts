import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatAddress, isLoopback, parseAddress } from '../../src/base/address.ts';
import { formatDuration, formatSize, parseDurationMs, parseSizeBytes } from '../../src/config/values.ts';

test('durations: units, fractions, integers in milliseconds', () => {
  const cases: [unknown, number | undefined][] = [
    ['500ms', 500],
    ['30s', 30_000],
    ['1m', 60_000],
    ['1h', 3_600_000],
    ['1d', 86_400_000],
    ['1.1s', 1100],
    ['0.5 h', 1_800_000],
    [1234, 1234],
    [0, 0],
    ['0.0005s', undefined],
    ['1.5ms', undefined],
    ['30', undefined],
    ['-1s', undefined],
    ['1 week', undefined],
    ['1S', undefined],
    ['', undefined],
    [-1, undefined],
    [1.5, undefined],
    [Number.POSITIVE_INFINITY, undefined],
    [true, undefined],
    ['999999999999999d', undefined],
    ['1constructor', undefined],
  ];
  for (const [raw, expected] of cases) assert.equal(parseDurationMs(raw), expected, String(raw));
});

test('sizes: decimal and binary units, integers in bytes', () => {
  const cases: [unknown, number | undefined][] = [
    ['10B', 10],
    ['1K', 1000],
    ['1KB', 1000],
    ['1KiB', 1024],
    ['2M', 2e6],
    ['2MB', 2e6],
    ['256 MiB', 268_435_456],
    ['1G', 1e9],
    ['1GB', 1e9],
    ['1GiB', 1_073_741_824],
    ['0.5KiB', 512],
    ['0.3KiB', undefined],
    [4096, 4096],
    ['1kb', undefined],
    ['1 XB', undefined],
    ['KiB', undefined],
    [-1, undefined],
  ];
  for (const [raw, expected] of cases) assert.equal(parseSizeBytes(raw), expected, String(raw));
});

test('what is printed reads back as the same value', () => {
  for (const ms of [0, 1, 999, 1000, 1500, 60_000, 90_000, 3_600_000, 86_400_000]) {
    assert.equal(parseDurationMs(formatDuration(ms)), ms);
  }
  for (const bytes of [0, 1, 1000, 1024, 65_536, 33_554_432, 1_073_741_824]) {
    assert.equal(parseSizeBytes(formatSize(bytes)), bytes);
  }
  for (const written of ['127.0.0.1:4437', '[::1]:0', 'node-1.example:80']) {
    const address = parseAddress(written);
    assert.ok(address);
    assert.equal(formatAddress(address), written);
  }
  assert.equal(formatDuration(60_000), '1m');
  assert.equal(formatSize(268_435_456), '256 MiB');
});

test('addresses that are not HOST:PORT are refused', () => {
  for (const raw of [
    '',
    ':1',
    'a',
    'a:',
    'a:b',
    'a:65536',
    'a:-1',
    '::1:1',
    '[::1]',
    'http://a:1',
    'a b:1',
    4437,
    null,
  ]) {
    assert.equal(parseAddress(raw), undefined, String(raw));
  }
});

test('only 127.0.0.0/8, ::1 and localhost are loopback', () => {
  assert.deepEqual(['127.0.0.1', '127.255.0.3', '::1', 'localhost'].map(isLoopback), [true, true, true, true]);
  assert.deepEqual(
    ['0.0.0.0', '::', '10.0.0.1', '128.0.0.1', '127.0.0.1.evil.example', 'example'].map(isLoopback),
    Array(6).fill(false),
  );
});
