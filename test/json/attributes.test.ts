import { test } from 'node:test';
import assert from 'node:assert/strict';
import { ATTRIBUTES_BYTES_MAX } from '../../src/base/limits.ts';
import { parseAttributes } from '../../src/json/attributes.ts';
import { JsonNormalizer } from '../../src/json/json-records.ts';

const json = new JsonNormalizer();
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

function encoded(body: string): string {
  const result = parseAttributes(bytesOf(body), json);
  assert.ok(result.ok, result.ok ? '' : `${result.reason}: ${body.slice(0, 200)}`);
  return new TextDecoder('utf-8', { fatal: true }).decode(result.encoded);
}

function refusal(body: string | Uint8Array): string {
  const result = parseAttributes(typeof body === 'string' ? bytesOf(body) : body, json);
  assert.ok(!result.ok, `accepted: ${String(body).slice(0, 200)}`);
  return result.reason;
}

test('kept members, in one order, without blanks', () => {
  const cases: [string, string][] = [
    ['{}', '{}'],
    [' { } ', '{}'],
    ['{"title":"x"}', '{"title":"x"}'],
    ['{"title":""}', '{"title":""}'],
    ['{"title":null}', '{}'],
    ['{"metadata":{}}', '{}'],
    ['{"metadata":{ }}', '{}'],
    ['{"metadata":{"a":{}}}', '{"metadata":{"a":{}}}'],
    [
      '{"metadata": {"b": [1.0, 1e400 ], "a":"x y"}, "title": "t"}',
      '{"title":"t","metadata":{"b":[1.0,1e400],"a":"x y"}}',
    ],
    ['{"title":"a \\u00e9 é \\"}{ "}', '{"title":"a \\u00e9 é \\"}{ "}'],
    ['{"metadata":{"]":"}","n":-1},"title":null}', '{"metadata":{"]":"}","n":-1}}'],
  ];
  for (const [body, expected] of cases) {
    assert.equal(encoded(body), expected, body);
    assert.equal(encoded(expected), expected, 'stable');
  }
});

test('unknown members are accepted with any value, and not stored', () => {
  const others = ['1', '-1.5e3', 'true', 'null', '"title"', '{"title":5}', '[{"metadata":1},"]"]', '[]', '{}'];
  for (const other of others) {
    assert.equal(encoded(`{"x":${other},"title":"t","y" : ${other}}`), '{"title":"t"}');
    assert.equal(encoded(`{"title ":${other},"Title":${other},"":${other}}`), '{}');
    assert.equal(encoded(`{"metadata":{"k":1},"${'z'.repeat(1000)}":${other}}`), '{"metadata":{"k":1}}');
  }
});

test('a repeated name: the last one counts, its type too', () => {
  assert.equal(encoded('{"title":"a","title":"b"}'), '{"title":"b"}');
  assert.equal(encoded('{"title":5,"title":"b"}'), '{"title":"b"}');
  assert.equal(encoded('{"title":"a","title":null}'), '{}');
  assert.equal(encoded('{"metadata":{"a":1},"metadata":{}}'), '{}');
  assert.match(refusal('{"title":"a","title":5}'), /title must be/);
});

test('a name written with escapes is the same name', () => {
  assert.equal(encoded('{"t\\u0069tle":"x"}'), '{"title":"x"}');
  const escaped = [...'metadata'].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  assert.equal(encoded(`{"${escaped}":{"a":1}}`), '{"metadata":{"a":1}}');
  assert.equal(encoded('{"\\ud800":1,"é":2}'), '{}');
});

test('invalid attributes are refused with a reason', () => {
  for (const body of ['[]', '"x"', '5', 'null', '[{"title":"x"}]'])
    assert.match(refusal(body), /must be a JSON object/);
  for (const value of ['5', 'true', '[]', '{}', 'false']) assert.match(refusal(`{"title":${value}}`), /title must be/);
  for (const value of ['5', 'null', '"x"', '[]']) assert.match(refusal(`{"metadata":${value}}`), /metadata must be/);
  for (const body of ['', ' ', '{', '{"title":}', '{"title":"x"} x', '{"title":"\\x"}'])
    assert.match(refusal(body), /^attributes: invalid JSON/);
  assert.match(refusal(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d)), /UTF-8/);
  assert.match(refusal(`{"metadata":{"a":${'['.repeat(127)}${']'.repeat(127)}}}`), /nesting/);
});

test('the limit counts the encoded form, to the byte', () => {
  const around = '{"title":""}'.length;
  const largest = `{"title":"${'x'.repeat(ATTRIBUTES_BYTES_MAX - around)}"}`;
  assert.equal(encoded(largest).length, ATTRIBUTES_BYTES_MAX);
  assert.match(refusal(largest.replace('xx', 'xxx')), /16385 bytes encoded; the limit is 16384/);
  assert.equal(encoded(`{"other":"${'x'.repeat(100_000)}",${' '.repeat(100_000)}"title":"t"}`), '{"title":"t"}');
});

test('the encoded bytes are in their own buffer', () => {
  const result = parseAttributes(bytesOf('{"title":"t"}'), json);
  assert.ok(result.ok);
  assert.equal(result.encoded.buffer.byteLength, result.encoded.length);
});

test('random objects agree with the same rules over JSON.parse', (t) => {
  const seed = 0x5eed37;
  t.diagnostic(`seed ${seed}`);
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * below);
  };
  const names = ['title', 'metadata', 'other', 'titl\\u0065', 'Title', 'meta\\u0064ata'];
  const values = ['"x"', '""', 'null', '1', '{}', '{"a":[1,{"title":"}"}]}', '[]', '"\\"}"', '{ "b" : 2 }', 'true'];
  for (let i = 0; i < 20_000; i++) {
    const members = Array.from(
      { length: random(5) },
      () => `"${names[random(names.length)]}" :${values[random(values.length)]}`,
    );
    const body = `{ ${members.join(' , ')} }`;
    const { title, metadata } = JSON.parse(body) as { title?: unknown; metadata?: unknown };
    const titleOk = title === undefined || title === null || typeof title === 'string';
    const metadataOk =
      metadata === undefined || (typeof metadata === 'object' && metadata !== null && !Array.isArray(metadata));
    const result = parseAttributes(bytesOf(body), json);
    assert.equal(result.ok, titleOk && metadataOk, `seed ${seed} case ${i}: ${body}`);
    if (!result.ok) continue;
    const expected: Record<string, unknown> = {};
    if (typeof title === 'string') expected['title'] = title;
    if (metadata !== undefined && Object.keys(metadata as object).length > 0) expected['metadata'] = metadata;
    assert.equal(new TextDecoder().decode(result.encoded), JSON.stringify(expected), `seed ${seed} case ${i}: ${body}`);
  }
});
