// Request headers of writes: what reaches the command, what is refused, and in which order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Refusal, WriteHeaders, declaredBytes, fillCommand } from '../../src/http/headers.ts';
import { type CommandFields, newCommandFields } from '../../src/wire/command.ts';

function fill(headers: Record<string, string>, isCreate = false): CommandFields | Refusal {
  const taken = new WriteHeaders();
  for (const [name, value] of Object.entries(headers)) taken.take(name, value);
  const command = newCommandFields();
  return fillCommand(taken, command, isCreate) ?? command;
}

function accepted(headers: Record<string, string>, isCreate = false): CommandFields {
  const result = fill(headers, isCreate);
  assert('kind' in result, `refused: ${JSON.stringify(result)}`);
  return result;
}

function refused(headers: Record<string, string>, isCreate = false): Refusal {
  const result = fill(headers, isCreate);
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
  assert.equal(fillCommand(taken, command, false), undefined);
  taken.reset();
  assert.equal(fillCommand(taken, command, false), undefined);
  const { nowMs: _, kind: __, producerEpoch: ___, producerSeq: ____, ...rest } = command;
  assert.deepEqual(rest, {
    bucket: '',
    stream: '',
    close: false,
    contentType: '',
    streamSeq: undefined,
    producerId: '',
    recordMatch: -1,
    ttlSeconds: -1,
    expiresAtMs: -1,
    attributes: undefined,
    payload: undefined,
  });
});

test('a create', () => {
  const command = accepted(
    { 'stream-ttl': '3600', 'stream-attrs': '{"title":"é"}', 'stream-record-match': 'junk' },
    true,
  );
  assert.equal(command.ttlSeconds, 3600);
  assert.equal(Buffer.from(command.attributes ?? []).toString(), '{"title":"é"}');
  // Bytes that are no UTF-8 arrive as this.
  assert.equal(refused({ 'stream-attrs': '{"title":"\ufffd"}' }, true).code, 'INVALID_HEADER');
  assert.equal(accepted({ 'stream-expires-at': '1970-01-01T00:00:01+00:00' }, true).expiresAtMs, 1000);
  assert.equal(accepted({ 'stream-ttl': 'junk' }).ttlSeconds, -1, 'an append has no lifetime');
});

test('malformed numbers are refused', () => {
  for (const value of ['', ' ', '-1', '+1', '1.5', '1e3', '0x10', '1abc', '9007199254740992', 'NaN', '1,2']) {
    assert.equal(refused({ 'stream-record-match': value }).code, 'INVALID_HEADER', value);
    assert.equal(refused({ 'producer-id': 'p', 'producer-epoch': value, 'producer-seq': '0' }).code, 'INVALID_HEADER');
    assert.equal(refused({ 'producer-id': 'p', 'producer-epoch': '0', 'producer-seq': value }).code, 'INVALID_HEADER');
    assert.equal(refused({ 'stream-ttl': value }, true).code, 'INVALID_HEADER');
    assert.equal(refused({ 'stream-expires-at': value }, true).code, 'INVALID_HEADER');
  }
  assert.equal(refused({ 'stream-ttl': '007' }, true).code, 'INVALID_HEADER');
  assert.equal(
    refused({ 'stream-ttl': '1', 'stream-expires-at': '2030-01-01T00:00:00Z' }, true).code,
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

test('of a repeated header the first counts', () => {
  const taken = new WriteHeaders();
  taken.take('stream-seq', 'a');
  taken.take('stream-seq', 'b');
  assert.equal(taken.streamSeq, 'a');
});

test('forks are refused instead of making a stream that is none', () => {
  for (const name of ['stream-forked-from', 'stream-fork-offset', 'stream-fork-sub-offset']) {
    assert.equal(refused({ [name]: 'x' }, true).code, 'INVALID_HEADER', name);
  }
});

test('declared size', () => {
  assert.equal(declaredBytes(undefined), -1);
  assert.equal(declaredBytes('0'), 0);
  assert.equal(declaredBytes('33554432'), 33554432);
  assert.equal(declaredBytes('99999999999999999999'), Number.MAX_SAFE_INTEGER);
});
