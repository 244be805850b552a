import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArraySplitter, asLines, valuesOf } from '../../src/operator/streams/array-splitter.ts';

const textsOf = (values: readonly Buffer[]): string[] => values.map((value) => value.toString('utf8'));
const split = (text: string): string[] => textsOf(valuesOf(Buffer.from(text)));

test('values come as they were written', () => {
  assert.deepEqual(split('[]'), []);
  assert.deepEqual(split(' [ ] '), []);
  assert.deepEqual(split('[1.50,"a,b]\\"[",{"x":[1,{}]},[2,3],null]'), [
    '1.50',
    '"a,b]\\"["',
    '{"x":[1,{}]}',
    '[2,3]',
    'null',
  ]);
  assert.deepEqual(split('["\\\\","é"]'), ['"\\\\"', '"é"']);
  assert.deepEqual(split('[\n  {"a":\n 1},\r\n 2 ]\n'), ['{"a":  1}', '2'], 'each on one line');
  assert.equal(asLines(valuesOf(Buffer.from('[1,{"b":2}]'))).toString(), '1\n{"b":2}\n');
});

test('pieces may end anywhere', () => {
  const text = Buffer.from('[{"a":"x\\"]é,"},12,[[1],"["], true ]');
  const whole = textsOf(valuesOf(text));
  assert.equal(whole.length, 4);
  for (let size = 1; size < text.length; size++) {
    const splitter = new ArraySplitter();
    const values: Buffer[] = [];
    for (let at = 0; at < text.length; at += size) values.push(...splitter.push(text.subarray(at, at + size)));
    splitter.end();
    assert.deepEqual(textsOf(values), whole, `pieces of ${size}`);
  }
});

test('what is no whole array is refused', () => {
  for (const text of ['', '[1,2', '{"a":1}', '[1][2]']) {
    assert.throws(() => valuesOf(Buffer.from(text)), /is not an array|is not a whole array/, text);
  }
});
