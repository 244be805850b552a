/** Header values, media types, and the base helpers they rest on (UTF-8, hashes). */
import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { fnv1a64mod, hash64Hex } from '../../src/base/hash.ts';
import { decodeUtf8, decodeUtf8Strict, encodeUtf8, isValidUtf8, utf8PrefixBytes } from '../../src/base/utf8.ts';
import {
  decodeUrlPart,
  formatOffset,
  parseBooleanTrue,
  parseOffset,
  parseProducer,
  parseTtl,
  parseUint53,
} from '../../src/protocol/header-values.ts';
import type { Parsed } from '../../src/protocol/header-values.ts';
import { isJson, isText, normalizeContentType, sameContentType } from '../../src/protocol/media-type.ts';

const MAX = Number.MAX_SAFE_INTEGER;

/** The value, or the kind of failure: one thing to compare in tables. */
function outcome<T>(parsed: Parsed<T>): T | string {
  if (parsed.ok) return parsed.value;
  assert.match(parsed.reason, /^\S.* .*\S$/, 'a reason is a sentence');
  return parsed.kind;
}

/** mulberry32; deterministic, so a failure replays. */
function prng(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

describe('integers', () => {
  test('offsets', () => {
    const cases: [string, number | string][] = [
      ['-1', -1],
      ['now', 'now'],
      ['0', 0],
      ['5', 5],
      ['007', 7],
      ['00000000000000000000', 0],
      ['00000000000000000042', 42],
      ['00009007199254740991', MAX],
      ['9007199254740991', MAX],
      ['9007199254740992', 'out-of-range'],
      ['9007199254740993', 'out-of-range'],
      ['18446744073709551615', 'out-of-range'],
      ['99999999999999999999', 'out-of-range'],
      ['9'.repeat(5000), 'out-of-range'],
      ['000000000000000000042', 'malformed'],
      ...['', '+5', '5.0', '-2', '-0', '-01', '1_2', '0x1', ' 5', '5 ', '1e3', 'NOW', 'Now', '٣', '5\n'].map(
        (text): [string, string] => [text, 'malformed'],
      ),
    ];
    for (const [text, expected] of cases) assert.equal(outcome(parseOffset(text)), expected, JSON.stringify(text));
  });

  test('an offset is written with 20 digits and reads back', () => {
    assert.equal(formatOffset(0), '00000000000000000000');
    assert.equal(formatOffset(42), '00000000000000000042');
    assert.equal(formatOffset(MAX), '00009007199254740991');
    for (let n = 1; n < MAX; n *= 7) assert.equal(outcome(parseOffset(formatOffset(n))), n);
    for (const bad of [-1, 0.5, MAX + 1, NaN, Infinity]) assert.throws(() => formatOffset(bad), /not a byte position/);
  });

  test('ordinals and counters', () => {
    assert.equal(outcome(parseUint53('9007199254740991')), MAX);
    assert.equal(outcome(parseUint53('9007199254740992')), 'out-of-range');
    assert.equal(outcome(parseUint53('12')), 12);
    for (const text of ['', '-1', '+1', 'now', '1.0', 'a']) assert.equal(outcome(parseUint53(text)), 'malformed');
    const named = parseUint53('x', 'Stream-Record-Match');
    assert.ok(!named.ok && named.reason.startsWith('Stream-Record-Match '));
  });

  test('TTL', () => {
    const cases: [string, number | string][] = [
      ['0', 0],
      ['1', 1],
      ['3600', 3600],
      ['9007199254740', 9007199254740],
      ['9007199254741', 'out-of-range'],
      ['18446744073709551615', 'out-of-range'],
      ...['', '00', '007', '-1', '+60', '1.5', '1e3', ' 1', '60s'].map((t): [string, string] => [t, 'malformed']),
    ];
    for (const [text, expected] of cases) assert.equal(outcome(parseTtl(text)), expected, JSON.stringify(text));
  });
});

describe('other headers', () => {
  test('Stream-Closed', () => {
    for (const yes of ['true', 'TRUE', 'True']) assert.equal(parseBooleanTrue(yes), true);
    for (const no of [undefined, '', 'false', '1', 'yes', ' true', 'truee']) assert.equal(parseBooleanTrue(no), false);
  });

  test('producer', () => {
    assert.equal(outcome(parseProducer(undefined, undefined, undefined)), undefined);
    assert.deepEqual(outcome(parseProducer(' w ', '0', ' 9007199254740991 ')), { id: 'w', epoch: 0, seq: MAX });
    // The id becomes part of a key, and LMDB takes no key above 1978 bytes.
    assert.equal(parseProducer('i'.repeat(1024), '0', '0').ok, true);
    assert.equal(outcome(parseProducer('i'.repeat(1025), '0', '0')), 'out-of-range');
    const bad: [string | undefined, string | undefined, string | undefined, string][] = [
      ['w', '0', undefined, 'malformed'],
      ['w', undefined, '0', 'malformed'],
      [undefined, '0', '0', 'malformed'],
      ['w', undefined, undefined, 'malformed'],
      ['', '0', '0', 'malformed'],
      ['  ', '0', '0', 'malformed'],
      ['w', '', '0', 'malformed'],
      ['w', '0', '', 'malformed'],
      ['w', '-1', '0', 'malformed'],
      ['w', '0', '1.5', 'malformed'],
      ['w', '0', '1abc', 'malformed'],
      ['w', '9007199254740992', '0', 'out-of-range'],
      ['w', '0', '9007199254740992', 'out-of-range'],
    ];
    for (const [id, epoch, seq, kind] of bad) {
      assert.equal(outcome(parseProducer(id, epoch, seq)), kind, `${id} ${epoch} ${seq}`);
    }
  });

  test('path segments', () => {
    assert.equal(decodeUrlPart('plain'), 'plain');
    assert.equal(decodeUrlPart('a%2Fb%20c'), 'a/b c');
    assert.equal(decodeUrlPart('%E2%82%AC'), '€');
    assert.equal(decodeUrlPart('%F0%9F%98%80'), '😀');
    assert.equal(decodeUrlPart('%00'), '\0');
    for (const bad of ['%', '%4', '%zz', '%ff', '%C0%AF', '%ED%A0%80', '%E2%82', '%F5%80%80%80']) {
      assert.equal(decodeUrlPart(bad), undefined, bad);
    }
  });
});

describe('media types', () => {
  test('normal form', () => {
    const cases: [string, string][] = [
      ['', ''],
      ['  ', ''],
      [' ; ;', ''],
      ['Text/PLAIN', 'text/plain'],
      ['application/json;charset=UTF-8', 'application/json; charset=utf-8'],
      [' Application/JSON ; Charset=Utf-8 ;; ', 'application/json; charset=utf-8'],
      ['multipart/mixed; Boundary="a;B\\";c"', 'multipart/mixed; boundary="a;B\\";c"'],
      ['text/plain; FLAG', 'text/plain; flag'],
    ];
    for (const [raw, expected] of cases) {
      assert.equal(normalizeContentType(raw), expected, raw);
      assert.equal(normalizeContentType(raw), expected, 'from the memo');
      assert.equal(normalizeContentType(expected), expected, 'idempotent');
    }
  });

  test('comparison', () => {
    const same = (a: string, b: string): boolean => sameContentType(normalizeContentType(a), normalizeContentType(b));
    assert.ok(same('application/json', 'Application/JSON; charset=utf-8'));
    assert.ok(same('TEXT/plain; Format=Flowed', 'text/plain;format=flowed'));
    assert.ok(!same('application/json', 'application/json; profile=x'));
    assert.ok(same('application/json; profile=x; charset=utf-8', 'application/json; profile=x'));
    assert.ok(!same('text/plain', 'text/plain; charset=utf-8'));
    assert.ok(!same('application/json', 'application/octet-stream'));
    assert.ok(!same('application/json', ''));
  });

  test('questions', () => {
    for (const yes of ['application/json', 'APPLICATION/JSON', 'application/json ;charset=utf-8'])
      assert.ok(isJson(yes));
    for (const no of ['', 'application/jsonl', 'text/json', 'application/ld+json']) assert.ok(!isJson(no));
    for (const yes of ['text/plain', 'Text/Event-Stream', 'application/json; charset=utf-8']) assert.ok(isText(yes));
    for (const no of ['', 'application/octet-stream', 'image/png', 'textual/x']) assert.ok(!isText(no));
  });

  test('a flood of invented types does not disturb the answers', () => {
    for (let i = 0; i < 2000; i++) {
      assert.equal(normalizeContentType(`X/${i}; A=${i}`), `x/${i}; a=${i}`);
      assert.ok(sameContentType(`x/${i}`, `X/${i}`));
      assert.ok(!sameContentType(`x/${i}`, `x/${i + 1}`));
    }
    assert.equal(normalizeContentType(`X/${'Y'.repeat(1000)}`), `x/${'y'.repeat(1000)}`);
  });
});

describe('UTF-8', () => {
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const samples = [
    '',
    'a',
    'a\u0080',
    'é',
    '\u07ff\u0800',
    '€uro',
    '\ud7ff\ue000\uffff',
    '😀',
    '\u{10ffff}',
    '\ufeffx',
    'x'.repeat(100),
  ];

  test('validity agrees with the platform on edge cases and on noise', () => {
    const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
    for (const bad of [
      '80',
      'c0af',
      'c1bf',
      'c2',
      'e08080',
      'e09fbf',
      'eda080',
      'edbfbf',
      'e282',
      'f08fbfbf',
      'f4908080',
      'f5808080',
      'ff',
      'f09f98',
    ]) {
      assert.equal(isValidUtf8(bytesOf(bad)), false, bad);
      assert.equal(isValidUtf8(bytesOf(`6161616161616161${bad}`)), false, bad);
      assert.equal(decodeUtf8Strict(bytesOf(bad)), undefined);
    }
    const seed = 0x5eed34;
    const random = prng(seed);
    for (let i = 0; i < 50_000; i++) {
      const text = encodeUtf8(
        `abcdefgh${samples[Math.floor(random() * samples.length)]}${samples[Math.floor(random() * samples.length)]}`,
      );
      for (let k = Math.floor(random() * 3); k > 0; k--)
        text[Math.floor(random() * text.length)] = Math.floor(random() * 256);
      assert.equal(isValidUtf8(text), isUtf8(text), `seed ${seed} case ${i}: ${Buffer.from(text).toString('hex')}`);
    }
  });

  test('conversions', () => {
    for (const text of samples) {
      const bytes = encodeUtf8(text);
      assert.deepEqual(Buffer.from(bytes), Buffer.from(text));
      assert.equal(decodeUtf8(bytes), text);
      assert.equal(decodeUtf8Strict(bytes), text);
      assert.equal(strict.decode(bytes), text);
      const shared = new Uint8Array(new SharedArrayBuffer(bytes.length + 2));
      shared.set(bytes, 1);
      assert.equal(decodeUtf8(shared, 1, 1 + bytes.length), text);
    }
    assert.equal(decodeUtf8(Uint8Array.of(0x61, 0xff)), 'a\ufffd');
    assert.deepEqual(encodeUtf8('\ud800'), Uint8Array.of(0xef, 0xbf, 0xbd));
  });

  test('a prefix ends on a character boundary', () => {
    const text = 'a€😀é';
    const bytes = encodeUtf8(text);
    const boundaries = [0, 1, 4, 8, 10];
    for (let limit = 0; limit <= bytes.length + 3; limit++) {
      const expected = boundaries.filter((at) => at <= limit).at(-1);
      assert.equal(utf8PrefixBytes(bytes, limit), expected, `limit ${limit}`);
      assert.equal(utf8PrefixBytes(bytes.subarray(0, limit)), expected, `cut ${limit}`);
    }
    assert.equal(utf8PrefixBytes(new Uint8Array(9).fill(0x80)), 9);
  });
});

describe('hashes', () => {
  const fnvReference = (text: string): bigint => {
    let hash = 0xcbf29ce484222325n;
    for (const byte of Buffer.from(text)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffff_ffff_ffff_ffffn;
    return hash;
  };

  test('placement vectors: where streams are must never change', () => {
    const vectors: [string, string, bigint, number, number, number][] = [
      ['demo', 'hello', 0x4d55fae82f86fb29n, 9, 41, 41],
      ['tenant-a', 's1', 0xb71b6d8ba77bf864n, 4, 36, 100],
      ['workflow', 'run-42', 0xd93c77e4b7895cc3n, 3, 3, 195],
      ['_default', 'x', 0x1fed0154d08ee664n, 4, 36, 100],
    ];
    for (const [bucket, stream, hash, of16, of64, of256] of vectors) {
      assert.equal(fnvReference(`${bucket}/${stream}`), hash);
      assert.deepEqual(
        [16, 64, 256].map((n) => fnv1a64mod(bucket, stream, n)),
        [of16, of64, of256],
      );
    }
  });

  test('placement for every group count and for any text', () => {
    for (let groups = 1; groups <= 4096; groups++) {
      assert.equal(fnv1a64mod('demo', 'hello', groups), Number(0x4d55fae82f86fb29n % BigInt(groups)));
      assert.equal(fnv1a64mod('tenant-a', 's1', groups), Number(0xb71b6d8ba77bf864n % BigInt(groups)));
    }
    for (const stream of ['', 'é', '€/€', '😀', '\ud800x', 'x\udc00', '\u{10ffff}', 'a'.repeat(1000)]) {
      for (const groups of [7, 16, 4095]) {
        assert.equal(fnv1a64mod('b', stream, groups), Number(fnvReference(`b/${stream}`) % BigInt(groups)), stream);
      }
    }
    for (const bad of [0, -1, 1.5, 4097, NaN]) assert.throws(() => fnv1a64mod('a', 'b', bad), /group count/);
  });

  test('fingerprints are stable, 16 hex digits, and distinct over close inputs', () => {
    assert.match(hash64Hex([]), /^[0-9a-f]{16}$/);
    assert.equal(hash64Hex([1, 2], Uint8Array.of(3)), hash64Hex([1, 2], Uint8Array.of(3)));
    const seen = new Set<string>();
    let count = 0;
    const add = (numbers: number[], bytes?: Uint8Array): void => {
      seen.add(hash64Hex(numbers, bytes));
      count++;
    };
    for (let a = 0; a < 300; a++) for (let b = 0; b < 300; b++) add([a, b]);
    for (let n = 0; n < 64; n++) add([], new Uint8Array(n));
    for (let bit = 0; bit < 53; bit++) add([2 ** bit, 0, 0]);
    for (let bit = 0; bit < 8 * 33; bit++) {
      const bytes = new Uint8Array(33);
      bytes[bit >> 3] = 1 << (bit & 7);
      add([], bytes);
    }
    assert.equal(seen.size, count);
  });
});
