import { describe, test } from 'node:test';
import assert from 'node:assert/strict';
import { parseRfc3339 } from '../../src/http/timestamps.ts';
import { TIMESTAMP_MS_MAX } from '../../src/protocol/header-values.ts';
import { createRandom } from '../support/random.ts';

function parsed(text: string): number | string {
  const result = parseRfc3339(text);
  return result.ok ? result.value : result.kind;
}

describe('RFC 3339 timestamps', () => {
  test('accepted forms', () => {
    const cases: [string, number][] = [
      ['1970-01-01T00:00:00Z', 0],
      ['1970-01-01t00:00:00.001z', 1],
      ['1970-01-01T01:00:00+01:00', 0],
      ['1969-12-31T23:00:00-01:00', 0],
      ['1970-01-01T00:00:00.0019999Z', 1],
      ['1970-01-01T00:00:00.5Z', 500],
      ['2000-02-29T12:34:56.789Z', Date.UTC(2000, 1, 29, 12, 34, 56, 789)],
      ['2024-02-29T00:00:00-00:00', Date.UTC(2024, 1, 29)],
      ['2016-12-31T23:59:60Z', Date.UTC(2017, 0, 1)],
      ['2017-01-01T05:29:60.250+05:30', Date.UTC(2017, 0, 1, 0, 0, 0, 250)],
      ['9999-12-31T23:59:59.999Z', TIMESTAMP_MS_MAX],
    ];
    for (const [text, expected] of cases) assert.equal(parsed(text), expected, text);
  });

  test('refused forms', () => {
    const malformed = [
      '',
      'not-a-timestamp',
      '2026-01-01',
      '2026-01-01T00:00:00',
      '2026-01-01 00:00:00Z',
      '2026-1-01T00:00:00Z',
      '2026-01-01T00:00Z',
      '2026-01-01T00:00:00.Z',
      '2026-01-01T00:00:00+0100',
      '2026-01-01T00:00:00+24:00',
      '2026-01-01T00:00:00+01:60',
      '2026-00-01T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-01-00T00:00:00Z',
      '2026-04-31T00:00:00Z',
      '2026-02-29T00:00:00Z',
      '2100-02-29T00:00:00Z',
      '2026-01-01T24:00:00Z',
      '2026-01-01T00:60:00Z',
      '2026-01-01T00:00:61Z',
      '2026-01-01T12:00:60Z',
      '2026-12-31T23:59:60+01:00',
      ' 2026-01-01T00:00:00Z',
      '2026-01-01T00:00:00Z\n',
      '+002026-01-01T00:00:00Z',
      '1767225600',
    ];
    for (const text of malformed) assert.equal(parsed(text), 'malformed', JSON.stringify(text));
    for (const text of ['1969-12-31T23:59:59.999Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59-00:01']) {
      assert.equal(parsed(text), 'out-of-range', text);
    }
  });

  test('agrees with Date over the whole range', () => {
    const seed = 0x5eed33;
    const random = createRandom(seed);
    for (let i = 0; i < 20_000; i++) {
      const ms = random.int(0, TIMESTAMP_MS_MAX);
      const text = new Date(ms).toISOString();
      assert.equal(parsed(text), ms, `seed ${seed}`);
    }
    for (let day = 0; day <= 100_000; day++) {
      const ms = day * 86_400_000;
      assert.equal(parsed(new Date(ms).toISOString()), ms);
    }
  });
});
