// Request headers of writes: what reaches the command, what is refused, and in which order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RefusalReason } from '../../src/base/errors.ts';
import { parseFork } from '../../src/http/routes/streams.ts';
import { WriteHeaders, declaredBytes, fillAppend, fillCreate } from '../../src/http/headers.ts';
import { type CommandFields, newCommandFields, resetCommandFields } from '../../src/protocol/command.ts';

function fill(headers: Record<string, string>, kind: 'append' | 'create' = 'append'): CommandFields | RefusalReason {
  const taken = new WriteHeaders();
  for (const [name, value] of Object.entries(headers)) taken.take(name, value);
  const command = newCommandFields();
  return (kind === 'create' ? fillCreate(taken, command) : fillAppend(taken, command)) ?? command;
}

function accepted(headers: Record<string, string>, kind: 'append' | 'create' = 'append'): CommandFields {
  const result = fill(headers, kind);
  assert('kind' in result, `refused: ${JSON.stringify(result)}`);
  return result;
}

function refused(headers: Record<string, string>, kind: 'append' | 'create' = 'append'): RefusalReason {
  const result = fill(headers, kind);
  assert('code' in result, `accepted: ${JSON.stringify(headers)}`);
  return result;
}

test('an append', () => {
  const command = accepted({
    'content-type': 'Application/JSON ; Charset=UTF-8',
    'stream-closed': 'TRUE',
    'stream-seq': '0007',
    'producer-id': ' writer ',
    'producer-epoch': '3',
    'producer-seq': '9007199254740991',
    'stream-record-match': '12',
  });
  assert.equal(command.contentType, 'application/json; charset=utf-8');
  assert.equal(command.close, true);
  assert.equal(command.streamSeq, '0007');
  assert.deepEqual([command.producerId, command.producerEpoch, command.producerSeq], ['writer', 3, 9007199254740991]);
  assert.equal(command.recordMatch, 12);
  assert.equal(command.attributes, undefined);
});

test('nothing sent is nothing set, also after a request that sent everything', () => {
  const taken = new WriteHeaders();
  const command = newCommandFields();
  taken.take('producer-id', 'p');
  taken.take('producer-epoch', '1');
  taken.take('producer-seq', '0');
  taken.take('stream-record-match', '1');
  taken.take('stream-seq', 'x');
  taken.take('stream-closed', 'true');
  taken.take('content-type', 'text/plain');
  assert.equal(fillAppend(taken, command), undefined);
  taken.reset();
  resetCommandFields(command);
  assert.equal(fillAppend(taken, command), undefined);
  const { nowMs: _, kind: __, producerEpoch: ___, producerSeq: ____, ...rest } = command;
  assert.deepEqual(rest, {
    bucket: '',
    stream: '',
    close: false,
    contentType: '',
    streamSeq: undefined,
    producerId: '',
    recordMatch: -1,
    expectedOffset: -1,
    ttlSeconds: -1,
    expiresAtMs: -1,
    forkToken: 0,
    condition: '',
    attributes: undefined,
    payload: undefined,
  });
});

test('a create', () => {
  const command = accepted(
    { 'stream-ttl': '3600', 'stream-attrs': '{"title":"é"}', 'stream-record-match': 'junk' },
    'create',
  );
  assert.equal(command.ttlSeconds, 3600);
  assert.equal(Buffer.from(command.attributes ?? []).toString(), '{"title":"é"}');
  // Bytes that are no UTF-8 arrive as this.
  assert.equal(refused({ 'stream-attrs': '{"title":"\ufffd"}' }, 'create').code, 'INVALID_HEADER');
  assert.equal(accepted({ 'stream-expires-at': '1970-01-01T00:00:01+00:00' }, 'create').expiresAtMs, 1000);
  assert.equal(accepted({ 'stream-ttl': 'junk' }).ttlSeconds, -1, 'an append has no lifetime');
});

test('malformed numbers are refused', () => {
  for (const value of ['', ' ', '-1', '+1', '1.5', '1e3', '0x10', '1abc', '9007199254740992', 'NaN', '1,2']) {
    assert.equal(refused({ 'stream-record-match': value }).code, 'INVALID_HEADER', value);
    assert.equal(refused({ 'producer-id': 'p', 'producer-epoch': value, 'producer-seq': '0' }).code, 'INVALID_HEADER');
    assert.equal(refused({ 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': value }).code, 'INVALID_HEADER');
    assert.equal(refused({ 'stream-ttl': value }, 'create').code, 'INVALID_HEADER');
    assert.equal(refused({ 'stream-expires-at': value }, 'create').code, 'INVALID_HEADER');
  }
  assert.equal(refused({ 'stream-ttl': '007' }, 'create').code, 'INVALID_HEADER');
  assert.equal(
    refused({ 'stream-ttl': '1', 'stream-expires-at': '2030-01-01T00:00:00Z' }, 'create').code,
    'INVALID_HEADER',
  );
});

test('producer headers come all or none', () => {
  const parts = { 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': '0' };
  for (const missing of Object.keys(parts) as (keyof typeof parts)[]) {
    const { [missing]: _, ...others } = parts;
    assert.equal(refused(others).code, 'PRODUCER_INCOMPLETE', missing);
  }
  assert.equal(refused({ ...parts, 'producer-id': '' }).code, 'INVALID_HEADER');
  assert.equal(refused({ ...parts, 'producer-id': ' ' }).code, 'INVALID_HEADER');
});

test('texts are bounded visible ASCII', () => {
  for (const name of ['producer-id', 'stream-seq', 'content-type']) {
    const rest = name === 'producer-id' ? { 'producer-epoch': '0', 'producer-seq': '0' } : {};
    // A producer id is part of a key in the store.
    const most = name === 'producer-id' ? 1024 : 4096;
    for (const value of ['\u00e9', 'a\u0001b', '\ufffd', 'x'.repeat(most + 1)]) {
      assert.equal(refused({ [name]: value, ...rest }).code, 'INVALID_HEADER', name);
    }
    accepted({ [name]: 'x'.repeat(most), ...rest });
  }
  assert.equal(accepted({ 'stream-seq': ' ' }).streamSeq, undefined);
});

test('a type that was sent before is taken as it was the first time', () => {
  const taken: Readonly<Record<string, string>> = { 'Text/Plain': 'text/plain', ' ': '', 'a/b ;c=D': 'a/b; c=D' };
  for (const sent of ['Text/Plain', 'Text/Plain', 'a\u00e9', 'a\u00e9', 'Text/Plain', ' ', 'a/b ;c=D', 'a/b ;c=D']) {
    const headers = { 'content-type': sent };
    const expected = taken[sent];
    if (expected === undefined) assert.match(refused(headers).detail, /^Content-Type holds/);
    else assert.equal(accepted(headers).contentType, expected);
  }
  assert.equal(accepted({}).contentType, '');
});

test('of a repeated header the first counts', () => {
  const taken = new WriteHeaders();
  taken.take('stream-seq', 'a');
  taken.take('stream-seq', 'b');
  assert.equal(taken.streamSeq, 'a');
});

function fork(headers: Record<string, string>): ReturnType<typeof parseFork> {
  const taken = new WriteHeaders();
  for (const [name, value] of Object.entries(headers)) taken.take(name, value);
  return parseFork(taken);
}

test('what is forked, and where', () => {
  const from = (path: string, more: Record<string, string> = {}) => fork({ 'stream-forked-from': path, ...more });
  const request = (bucket: string, stream: string, offset = -1, subOffset = 0) => {
    return { ok: true, request: { bucket, stream, offset, subOffset } };
  };
  assert.deepEqual(fork({}), { ok: true, request: undefined });
  assert.deepEqual(from('/v1/stream/a/b/c'), request('a', 'b/c'));
  assert.deepEqual(from('/v1/stream/a'), request('_default', 'a'));
  assert.deepEqual(from(' /a/b%2Fc '), request('a', 'b/c'));
  assert.deepEqual(from('/a/b', { 'stream-fork-offset': '00000000000000000012' }), request('a', 'b', 12));
  assert.deepEqual(
    from('/a/b', { 'stream-fork-offset': '-1', 'stream-fork-sub-offset': '3' }),
    request('a', 'b', 0, 3),
    '-1 is the start, as in a read',
  );
  assert.deepEqual(
    from('/a/b', { 'stream-fork-offset': '0000000000000000_0000000000000000' }),
    request('a', 'b', 0),
    'the start as the reference writes it',
  );
  assert.deepEqual(from('/a/b', { 'stream-fork-sub-offset': '0' }), request('a', 'b'));
  const bad: Record<string, string>[] = [
    { 'stream-fork-offset': '0' },
    { 'stream-fork-sub-offset': '0' },
    { 'stream-forked-from': '' },
    { 'stream-forked-from': 'a/b' },
    { 'stream-forked-from': '/a' },
    { 'stream-forked-from': '/a/streams' },
    { 'stream-forked-from': '/a/b/attrs' },
    { 'stream-forked-from': '/a/%2E%2E' },
    { 'stream-forked-from': '/__svc/health' },
    { 'stream-forked-from': '/v1/stream/__x' },
    { 'stream-forked-from': 'http://other/a/b' },
    ...['now', 'x', '', '-2', '1_2', '99999999999999999999'].map((offset) => ({
      'stream-forked-from': '/a/b',
      'stream-fork-offset': offset,
    })),
    ...['-1', '+1', '1.5', '05', '', 'x'].map((sub) => ({
      'stream-forked-from': '/a/b',
      'stream-fork-offset': '0',
      'stream-fork-sub-offset': sub,
    })),
    { 'stream-forked-from': '/a/b', 'stream-fork-sub-offset': '1' },
  ];
  for (const headers of bad) assert.equal(fork(headers).ok, false, JSON.stringify(headers));
});

test('declared size', () => {
  assert.equal(declaredBytes(undefined), -1);
  assert.equal(declaredBytes('0'), 0);
  assert.equal(declaredBytes('33554432'), 33554432);
  assert.equal(declaredBytes('99999999999999999999'), Number.MAX_SAFE_INTEGER);
});
