// Query strings of reads and listings: values, defaults, and which complaint wins.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReadParams } from '../../src/http/context.ts';
import { parseReadQuery } from '../../src/http/query.ts';
import { parseListQuery } from '../../src/protocol/query-string.ts';
import { READ_FLAG_ENVELOPE } from '../../src/protocol/queries/read.ts';
import {
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  READ_TAIL_RECORDS,
} from '../../src/protocol/read-fields.ts';

function read(query: string | undefined): ReadParams {
  const parsed = parseReadQuery(query, 30_000, '');
  assert(parsed.ok, `${query} is refused: ${parsed.ok ? '' : parsed.reason}`);
  return parsed.value.params;
}

function refusal(query: string): string {
  const parsed = parseReadQuery(query, 30_000, '');
  assert(!parsed.ok, `${query} is accepted`);
  return parsed.reason;
}

test('positions', () => {
  const start = { mode: READ_OFFSET, value: 0 };
  for (const query of [
    undefined,
    '',
    'offset=-1',
    'offset=0',
    'offset=00000000000000000000',
    'foo=bar&baz',
    'offset=%2D1',
  ]) {
    const { mode, value } = read(query);
    assert.deepEqual({ mode, value }, start, query);
  }
  assert.equal(read('offset=42').value, 42);
  assert.equal(read('offset=00000000000000000042').value, 42);
  assert.equal(read('offset=9007199254740991').value, 9007199254740991);
  assert.equal(read('offset=now').mode, READ_NOW);
  assert.equal(read('record=now').mode, READ_RECORD_NOW);
  assert.equal(read('tail_records=0').mode, READ_RECORD_NOW);
  assert.deepEqual([read('record=7').mode, read('record=7').value], [READ_RECORD, 7]);
  assert.deepEqual([read('tail_records=3').mode, read('tail_records=3').value], [READ_TAIL_RECORDS, 3]);
});

test('bounds, views and waits', () => {
  assert.deepEqual([read('max_bytes=10').maxBytes, read('').maxBytes], [10, 0]);
  assert.equal(read('max_bytes=9007199254740991').maxBytes, 0xffff_ffff);
  assert.equal(read('record=0&max_records=5').maxRecords, 5);
  assert.equal(read('record=0&record_view=envelope').readFlags, READ_FLAG_ENVELOPE);
  assert.equal(read('offset=0&live=long-poll').timeoutMs, 30_000);
  assert.equal(read('offset=0&live=long-poll&timeout_ms=0').timeoutMs, 1);
  assert.equal(read('offset=0&live=long-poll&timeout_ms=99999999').timeoutMs, 60_000);
  // Values that cannot be parsed are ignored; huge ones count as the largest there is.
  for (const value of ['', '-1', '1.5', 'x', '%00']) {
    const { maxBytes, timeoutMs } = read(`offset=0&live=long-poll&max_bytes=${value}&timeout_ms=${value}`);
    assert.deepEqual([maxBytes, timeoutMs], [0, 30_000], value);
  }
  const huge = read('offset=0&live=long-poll&max_bytes=18446744073709551615&timeout_ms=18446744073709551615');
  assert.deepEqual([huge.maxBytes, huge.timeoutMs], [0xffff_ffff, 60_000]);
  assert.equal(read('offset=0&live=sse').live, 'sse');
  assert.equal(read('record=now&live=sse').live, 'sse');
  assert.deepEqual([read('cursor=12').cursor, read('cursor=abc').cursor, read('').cursor], [12, undefined, undefined]);
  assert.equal(read('offset=0&live=sse&event=message').event, 'message');
  assert.equal(read('live=sse&live=long-poll&offset=0').live, 'long-poll', 'the last of a repeated name counts');
});

test('max_bytes=0 asks for no bytes on a catch-up read and means 1 on a live one', () => {
  const catchUp = parseReadQuery('max_bytes=0', 1, '');
  const live = parseReadQuery('max_bytes=0&offset=0&live=sse', 1, '');
  assert(catchUp.ok && live.ok);
  assert.deepEqual([catchUp.value.noBytes, catchUp.value.params.maxBytes], [true, 1]);
  assert.deepEqual([live.value.noBytes, live.value.params.maxBytes], [false, 1]);
});

test('malformed values are refused', () => {
  const offsets = [
    '',
    '5.0',
    '%2B5',
    '+5',
    '-2',
    '0%2C1',
    '0,1',
    '0%201',
    'abc',
    '1e3',
    '%00',
    '0%0A',
    '0%0D%0A',
    '../1',
    '1/..',
    '%zz',
    '%ff',
  ];
  offsets.push('9007199254740992', '18446744073709551616', '000000000000000000000');
  for (const offset of offsets) refusal(`offset=${offset}`);
  for (const query of ['offset', 'offset=1&offset=1', 'offset=a&offset=b']) refusal(query);
  for (const value of ['', '-1', '1.5', 'x', '9007199254740992']) {
    refusal(`record=${value}`);
    refusal(`tail_records=${value}`);
    refusal(`record=0&max_records=${value}`);
  }
  refusal('record=0&max_records=0');
  refusal('tail_records=now');
});

test('the first complaint wins, in an order that clients may rely on', () => {
  const order = [
    ['offset=1&offset=2&record_view=x&live=x', /more than once/],
    ['record_view=x&record=1&tail_records=1', /must be envelope/],
    ['record_view=envelope&max_records=x&live=x', /needs record or tail_records/],
    ['record=1&tail_records=1&offset=0', /exclude each other/],
    ['record=1&offset=0&max_bytes=x', /exclude offset/],
    ['max_records=x&live=x', /max_records needs/],
    ['record=x&max_bytes=1', /max_bytes cannot/],
    ['live=nonsense', /needs a position/],
    ['live=nonsense&offset=x', /offset must be/],
    ['live=nonsense&record=x', /record must be/],
    ['live=nonsense&record=0&max_records=0', /at least 1/],
    ['live=nonsense&offset=0', /long-poll or sse/],
    ['live=long-poll&offset=0&event=x', /data or message/],
    ['live=long-poll&offset=0&event=message', /event needs live=sse/],
    ['event=data', /event needs live=sse/],
    ['live=long-poll&offset=0&wait=x', /wait must be create/],
    ['wait=create', /wait needs live/],
  ] as const;
  for (const [query, sentence] of order) assert.match(refusal(query), sentence, query);
});

test('listing', () => {
  const all = parseListQuery(undefined);
  assert(all.ok);
  assert.deepEqual(all.value, { prefix: '', after: '', limit: 1000 });
  const some = parseListQuery('prefix=a%2Fb&after=a%2Fb1&limit=5');
  assert(some.ok);
  assert.deepEqual(some.value, { prefix: 'a/b', after: 'a/b1', limit: 5 });
  for (const query of [
    'limit=0',
    'limit=1001',
    'limit=',
    'limit=x',
    'limit=-1',
    'prefix=%00',
    'prefix=%ff',
    `after=${'a'.repeat(1025)}`,
  ]) {
    assert.equal(parseListQuery(query).ok, false, query);
  }
});
