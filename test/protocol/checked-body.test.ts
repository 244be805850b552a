import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeUtf8 } from '../../src/base/utf8.ts';
import { checkJsonBody } from '../../src/group/json-body.ts';
import {
  BODY_RECORDS,
  BODY_REFUSED,
  type BodyRecords,
  asJsonArray,
  decodeRecords,
  decodeRefusal,
  encodeRecords,
  encodeRefusal,
  isCheckedBody,
  sentBytes,
} from '../../src/protocol/checked-body.ts';
import { JsonNormalizer } from '../../src/json/json-records.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

const random = createRandom(seedFromEnvironment());

function recordsOf(body: string): BodyRecords {
  const result = checkJsonBody(encodeUtf8(body), new JsonNormalizer(), true);
  assert(!('code' in result));
  return result;
}

test('records come back as they were checked, and as a plain body they are the same records', () => {
  for (const body of ['[ 1 , "a\\n", {"b": [2 ]} ]', '{"one" : 1}', '[[1, 2]]', '[ ]', '"\\u000a"']) {
    const records = recordsOf(body);
    const payload = encodeRecords(records, body.length);
    assert(isCheckedBody(payload, BODY_RECORDS));
    assert.equal(sentBytes(payload), body.length);
    const decoded = decodeRecords(payload);
    assert(decoded !== undefined);
    assert.deepEqual([decoded.bytes, [...decoded.ends]], [records.bytes, [...records.ends]]);
    const plain = recordsOf(new TextDecoder().decode(asJsonArray(decoded)));
    assert.deepEqual([plain.bytes, [...plain.ends]], [records.bytes, [...records.ends]]);
  }
});

test('a refusal keeps its words', () => {
  const refusal = { code: 'INVALID_JSON', reason: 'invalid JSON at byte 7: expected é' } as const;
  const payload = encodeRefusal(refusal, 31_000_000);
  assert(isCheckedBody(payload, BODY_REFUSED));
  assert.deepEqual([decodeRefusal(payload), sentBytes(payload)], [refusal, 31_000_000]);
  payload.fill(0xff, payload.length - 8);
  assert.equal(decodeRefusal(payload).code, 'INVALID_JSON', 'whatever number it has');
});

test('bytes that no node wrote are told, or read as records that end where they say', () => {
  const good = encodeRecords(recordsOf('[1,22,333,4444]'), 15);
  for (let round = 0; round < 20_000; round++) {
    const bytes = good.slice(0, random.int(0, good.length));
    if (random.chance(0.5)) bytes.set(good.subarray(good.length - bytes.length));
    if (bytes.length > 0) bytes[random.int(0, bytes.length - 1)] = random.int(0, 255);
    if (isCheckedBody(bytes, BODY_REFUSED)) decodeRefusal(bytes);
    if (!isCheckedBody(bytes, BODY_RECORDS)) continue;
    const records = decodeRecords(bytes);
    if (records === undefined) continue;
    assert.equal(records.ends.at(-1) ?? 0, records.bytes.length);
    asJsonArray(records);
  }
});
