import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { JsonNormalizer } from '../../src/json/json-records.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const json = new JsonNormalizer();
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array): string => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);

/** The records as text without their \n; checks that `ends` and the newlines agree. */
function records(body: string | Uint8Array): string[] {
  const result = json.records(typeof body === 'string' ? bytesOf(body) : body);
  assert.ok(result.ok, result.ok ? '' : `${result.reason}: ${String(body).slice(0, 200)}`);
  const list: string[] = [];
  let start = 0;
  for (const end of result.ends) {
    const line = textOf(result.bytes.subarray(start, end));
    assert.ok(line.endsWith('\n') && line.indexOf('\n') === line.length - 1, 'one line per record');
    list.push(line.slice(0, -1));
    start = end;
  }
  assert.equal(start, result.bytes.length, 'nothing behind the last record');
  return list;
}

function refusal(body: string | Uint8Array): string {
  const result = json.records(typeof body === 'string' ? bytesOf(body) : body);
  assert.ok(!result.ok, `accepted: ${String(body).slice(0, 200)}`);
  return result.reason;
}

/** mulberry32; deterministic, so a failure replays. */
function prng(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000) * below);
  };
}

describe('accepted', () => {
  const cases: [string, string[]][] = [
    ['1', ['1']],
    ['"a b"', ['"a b"']],
    ['null', ['null']],
    [' \t\r\n true \n', ['true']],
    ['{}', ['{}']],
    [' { } ', ['{}']],
    ['{"b":1,"a":2,"b":3}', ['{"b":1,"a":2,"b":3}']],
    ['{ "a" : [ 1 , 2 , { } , [ ] ] , "b" : "x y" }', ['{"a":[1,2,{},[]],"b":"x y"}']],
    ['[]', []],
    [' [ \n ] ', []],
    ['[1]', ['1']],
    ['[[]]', ['[]']],
    ['[[1,2],[3]]', ['[1,2]', '[3]']],
    [' [ 1 , "a , b" ,\n{ "k" : [ 1 ] } ] \n', ['1', '"a , b"', '{"k":[1]}']],
    ['[[[1]],[]]', ['[[1]]', '[]']],
    ['{"list":[1,2]}', ['{"list":[1,2]}']],
    ['"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"', ['"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"']],
    ['"\\ud800"', ['"\\ud800"']],
    ['"\\u0000"', ['"\\u0000"']],
    ['"é€😀\u007f\u0080\ufeff"', ['"é€😀\u007f\u0080\ufeff"']],
    ['"a\u2028b"', ['"a\u2028b"']],
    [`[ "${'long '.repeat(50)}" , ${' '.repeat(100)} 2 ]`, [`"${'long '.repeat(50)}"`, '2']],
  ];
  test('table', () => {
    for (const [body, expected] of cases) assert.deepEqual(records(body), expected, body);
  });

  test('numbers keep their spelling', () => {
    const numbers = [
      '0',
      '-0',
      '1.0',
      '1e400',
      '-1E-400',
      '12345678901234567890',
      '0.10',
      '1E+2',
      '0e0',
      '9'.repeat(400),
    ];
    for (const n of numbers) {
      assert.deepEqual(records(n), [n]);
      assert.deepEqual(records(`{"n": ${n}}`), [`{"n":${n}}`]);
    }
    assert.deepEqual(records(`[${numbers.join(' , ')}]`), numbers);
  });

  test('results are not disturbed by later calls, and share nothing with the body', () => {
    const body = bytesOf('[1, 2]');
    const first = json.records(body);
    body.fill(0x39);
    for (let i = 0; i < 1000; i++) json.records(bytesOf(`{"i": ${i}, "text": "${'x'.repeat(i)}"}`));
    assert.ok(first.ok);
    assert.equal(textOf(first.bytes), '1\n2\n');
    assert.deepEqual(first.ends, [2, 4]);
  });

  test('a body in shared memory, at an odd position', () => {
    const shared = new Uint8Array(new SharedArrayBuffer(64)).fill(0x20);
    shared.set(bytesOf('["é", 1]'), 3);
    assert.deepEqual(records(shared.subarray(3, 12)), ['"é"', '1']);
    assert.deepEqual(records(shared), ['"é"', '1']);
  });

  test('a value is not flattened when asked', () => {
    const result = json.compact(bytesOf(' [ 1 , [ 2 ] ] '));
    assert.ok(result.ok);
    assert.equal(textOf(result.bytes), '[1,[2]]\n');
    assert.deepEqual(result.ends, [8]);
  });
});

describe('refused', () => {
  test('with the place and a reason', () => {
    const cases: [string, RegExp][] = [
      ['', /empty/],
      [' \n\t ', /empty/],
      ['\ufeff{}', /byte order mark/],
      ['[1,]', /at byte 3: expected a value/],
      ['[,1]', /at byte 1: expected a value/],
      ['{"a":1,}', /at byte 7: expected a member name/],
      ['{a:1}', /at byte 1: expected a member name/],
      ['{"a" 1}', /at byte 5: expected a colon/],
      ['{"a":1 "b"}', /at byte 7: expected a comma or }/],
      ['[1 2]', /at byte 3: expected a comma or ]/],
      ['[1}', /at byte 2: expected a comma or ]/],
      ['{"a":1]', /at byte 6: expected a comma or }/],
      ['1 2', /at byte 2: unexpected bytes after the value/],
      ['{}{}', /at byte 2: unexpected bytes/],
      ['[1]]', /at byte 3: unexpected bytes/],
      ['{}\u0001', /at byte 2: unexpected bytes/],
      ['{}\0', /at byte 2: unexpected bytes/],
      ['01', /at byte 1: a number with a leading zero/],
      ['-', /ends too early/],
      ['[-]', /at byte 2: expected a digit/],
      ['[1.]', /at byte 3: expected a digit after/],
      ['[.5]', /at byte 1: expected a value/],
      ['[1e]', /at byte 3: expected a digit in the exponent/],
      ['[1e+]', /at byte 4: expected a digit in the exponent/],
      ['+1', /at byte 0: expected a value/],
      ['NaN', /at byte 0: expected a value/],
      ['[tru]', /at byte 1: expected a value/],
      ['[True]', /expected a value/],
      ["['a']", /expected a value/],
      ['"a', /ends too early, after 2 bytes/],
      ['{"a":', /ends too early/],
      ['["a\nb"]', /at byte 3: a control character/],
      ['["\0"]', /at byte 2: a control character/],
      ['["\\x"]', /at byte 2: an unknown escape/],
      ['["\\u12g4"]', /at byte 6: expected four hexadecimal digits/],
      ['\u00a01', /expected a value/],
      ['/**/1', /expected a value/],
      ['\0', /at byte 0: expected a value/],
    ];
    for (const [body, reason] of cases) assert.match(refusal(body), reason, JSON.stringify(body));
  });

  test('every proper prefix of a document that needs its end', () => {
    const whole = ' [ {"a\\u00e9é":[true,false,null,-1.5e+10,"€😀\\n"]} , "x" ]';
    const bytes = bytesOf(whole);
    assert.equal(records(bytes).length, 2);
    for (let size = 0; size < bytes.length; size++) refusal(bytes.slice(0, size));
  });

  test('bytes that are not strict UTF-8', () => {
    const hex = [
      '80',
      'c0af',
      'c1bf',
      'c2',
      'e08080',
      'eda080',
      'edbfbf',
      'e282',
      'f08fbfbf',
      'f4908080',
      'f5808080',
      'ff',
      'f09f98',
    ];
    for (const bad of hex) {
      const body = Buffer.concat([Buffer.from('["é'), Buffer.from(bad, 'hex'), Buffer.from('"]')]);
      assert.match(refusal(body), /at byte 4: bytes that are not UTF-8/, bad);
      assert.match(
        refusal(Buffer.concat([Buffer.from('{"'), Buffer.from(bad, 'hex'), Buffer.from('":1}')])),
        /UTF-8/,
        bad,
      );
      refusal(Buffer.concat([Buffer.from('"'), Buffer.from(bad, 'hex')]));
      refusal(Buffer.from(bad, 'hex'));
    }
  });

  test('nesting: 128 levels pass, 129 and millions do not, and cost no stack', () => {
    const arrays = (n: number): string => '['.repeat(n) + ']'.repeat(n);
    const objects = (n: number): string => '{"a":'.repeat(n) + '1' + '}'.repeat(n);
    assert.deepEqual(records(arrays(128)), [arrays(127)]);
    assert.deepEqual(records(objects(128)), [objects(128)]);
    assert.match(refusal(arrays(129)), /at byte 128: nesting deeper than 128/);
    assert.match(refusal(objects(129)), /nesting deeper than 128/);
    assert.match(refusal('['.repeat(10_000)), /nesting/);
    assert.match(refusal(new Uint8Array(10_000_000).fill(0x5b)), /nesting/);
    assert.match(refusal(`{"a":${'['.repeat(10_000)}`), /nesting/);
    // Depth is how deep it is, not how much there is.
    assert.equal(records(`[${Array.from({ length: 1000 }, () => '[[{}]]').join(',')}]`).length, 1000);
  });
});

describe('against JSON.parse', () => {
  const BLANKS = ['', '', '', '', ' ', '\n', '\t', '\r\n', '   '];
  const STRINGS = [
    '',
    'a',
    'a b',
    ' ',
    '[1 , 2]',
    '\\n',
    '\\u0041',
    '\\ud83d\\ude00',
    '\\ud800',
    'é',
    '€',
    '😀',
    '\u007f',
    'key',
    '\\"',
    '\\\\',
  ];
  const NUMBERS = ['0', '-0', '1', '-12', '1.0', '1e400', '1E-7', '12345678901234567890', '0.5e+3'];

  /** Random JSON text with random blanks between tokens. */
  function document(random: (below: number) => number, depth: number): string {
    const pick = (list: readonly string[]): string => list[random(list.length)] as string;
    const blank = (): string => pick(BLANKS);
    const text = (): string => `"${Array.from({ length: random(4) }, () => pick(STRINGS)).join('')}"`;
    const kind = random(depth <= 0 ? 3 : 6);
    let value: string;
    if (kind === 0) value = text();
    else if (kind === 1) value = pick(NUMBERS);
    else if (kind === 2) value = pick(['true', 'false', 'null']);
    else {
      const items = Array.from({ length: random(5) }, () => {
        const item = document(random, depth - 1);
        return kind === 3 ? `${blank()}${text()}${blank()}:${item}` : item;
      });
      const body = items.length === 0 ? blank() : items.join(',');
      value = kind === 3 ? `{${body}}` : `[${body}]`;
    }
    return blank() + value + blank();
  }

  /** The dumb way: tokens by a regular expression, blanks left out, the outer array split by counting brackets. */
  function expectedRecords(text: string): string[] {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g) ?? [];
    if (tokens[0] !== '[') return [tokens.join('')];
    const list: string[] = [];
    let depth = 0;
    let current = '';
    for (const token of tokens) {
      const closes = token === ']' || token === '}';
      if (closes) depth--;
      if (depth === 0 || (depth === 1 && token === ',')) {
        if (current !== '') list.push(current);
        current = '';
      } else current += token;
      if (token === '[' || token === '{') depth++;
    }
    return list;
  }

  function parsed(bytes: Uint8Array): { value: unknown } | undefined {
    try {
      return { value: JSON.parse(textOf(bytes)) as unknown };
    } catch {
      return undefined;
    }
  }

  test('random documents: same records as the dumb way, same values after parsing', (t) => {
    const seed = 0x5eed35;
    t.diagnostic(`seed ${seed}`);
    const random = prng(seed);
    for (let i = 0; i < (IS_THOROUGH ? 20_000 : 10_000); i++) {
      const text = document(random, 5);
      const lines = records(text);
      assert.deepEqual(lines, expectedRecords(text), `seed ${seed} document ${i}`);
      const value = JSON.parse(text) as unknown;
      const values = lines.map((line) => JSON.parse(line) as unknown);
      assert.deepEqual(values, Array.isArray(value) ? value : [value], `seed ${seed} document ${i}`);
      for (const line of lines) assert.deepEqual(records(`{"v":${line}}`), [`{"v":${line}}`], 'normal form is stable');
    }
  });

  test('mutated documents: accepted exactly when JSON.parse accepts', (t) => {
    const seed = 0x5eed36;
    t.diagnostic(`seed ${seed}`);
    const random = prng(seed);
    const interesting = bytesOf('"\\[]{},:0123456789-+.eEtfnu \n\t/b\u0000\u0001\u001f\u007fé€😀');
    let accepted = 0;
    const documents = IS_THOROUGH ? 60_000 : 20_000;
    for (let i = 0; i < documents; i++) {
      let bytes = bytesOf(document(random, 4));
      for (let k = 1 + random(3); k > 0; k--) {
        const at = random(bytes.length + 1);
        const byte = random(4) === 0 ? random(256) : (interesting[random(interesting.length)] as number);
        const operation = random(4);
        const insert =
          operation === 0 ? [byte] : operation === 1 ? [] : operation === 2 ? [byte] : bytes.slice(at, at + random(6));
        bytes = Uint8Array.from([...bytes.slice(0, at), ...insert, ...bytes.slice(at + (operation === 0 ? 0 : 1))]);
      }
      const expected = parsed(bytes);
      const result = json.records(bytes);
      const context = `seed ${seed} document ${i}: ${Buffer.from(bytes).toString('hex')}`;
      assert.equal(result.ok, expected !== undefined, `${context} ${result.ok ? '' : result.reason}`);
      if (!result.ok || expected === undefined) continue;
      accepted++;
      const values = records(bytes).map((line) => JSON.parse(line) as unknown);
      assert.deepEqual(values, Array.isArray(expected.value) ? expected.value : [expected.value], context);
    }
    assert.ok(accepted > documents / 20 && accepted < documents / 2, `mutations must hit both sides: ${accepted}`);
  });
});
