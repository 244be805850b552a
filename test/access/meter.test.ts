// Limits of one token or bucket: rates with a burst of one second, debts of bytes, live readers, and clocks that jump.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LimitBook, type MeteredUse } from '../../src/access/limit-book.ts';
import { Meter } from '../../src/access/meter.ts';
import { RequestMeters } from '../../src/access/request-meters.ts';
import type { Grant } from '../../src/access/scopes.ts';
import { scopeOf } from '../support/scoped-tokens.ts';
import { NO_LIMITS, isUseLimits, parseUseLimits } from '../../src/base/use-limits.ts';

/** How many of `count` requests at that moment begin. */
function begun(meter: Meter, nowMs: number, count = 1000): number {
  let sum = 0;
  for (let i = 0; i < count; i++) if (meter.begin(nowMs) === undefined) sum++;
  return sum;
}

const meterOf = (limits: ConstructorParameters<typeof Meter>[1]): Meter => new Meter('the bucket "shop"', limits);

test('a second of requests may come at once, and then as many as time brings', () => {
  const meter = meterOf({ requests_per_second: 10 });
  assert.equal(begun(meter, 5000), 10);
  assert.deepEqual(meter.begin(5000), {
    code: 'RATE_LIMITED',
    detail: 'the bucket "shop" has requests_per_second = 10 on this node; slow down, or have that raised',
    retrySeconds: 1,
  });
  assert.equal(begun(meter, 5250), 2, 'two and a half of them');
  assert.equal(begun(meter, 5300), 1, 'the half was kept');
  assert.equal(begun(meter, 3_600_000), 10, 'an hour brings no more than a second does');
  assert.deepEqual(meter.used, { requests: 23, bytes: 0, refused: 4000 - 23 + 1, readers: 0 });
});

test('bytes make debts, which time pays off, and say how long that takes', () => {
  const meter = meterOf({ bytes_per_second: 1000 });
  assert.equal(meter.begin(0), undefined);
  meter.spend(10_500);
  const refused = meter.begin(0);
  assert.match(refused?.detail ?? '', /bytes_per_second = 1000 /);
  assert.equal(refused?.retrySeconds, 10, 'a debt of 9500 and one byte');
  assert.notEqual(meter.begin(9500), undefined);
  assert.equal(meter.begin(9501), undefined);
});

test('one request is refused for the limit that keeps it out longest', () => {
  const meter = meterOf({ requests_per_second: 1, bytes_per_second: 10 });
  assert.equal(meter.begin(0), undefined);
  assert.match(meter.begin(0)?.detail ?? '', /requests_per_second = 1 /);
  meter.spend(1000);
  assert.match(meter.begin(0)?.detail ?? '', /bytes_per_second = 10 /);
});

test('huge numbers make no more than an hour of debt, and none of them is lost', () => {
  const meter = meterOf({ bytes_per_second: 1 });
  assert.equal(meter.begin(0), undefined);
  for (let i = 0; i < 100; i++) meter.spend(Number.MAX_SAFE_INTEGER);
  assert.equal(meter.begin(0)?.retrySeconds, 3601);
  assert.notEqual(meter.begin(3_600_999), undefined);
  assert.equal(meter.begin(3_601_001), undefined);
  const most = meterOf({ requests_per_second: 1e9, bytes_per_second: 2 ** 40, live_readers: 1e7 });
  assert.equal(begun(most, Number.MAX_SAFE_INTEGER), 1000);
});

test('a clock that jumps brings a second at most, and takes nothing away', () => {
  const meter = meterOf({ requests_per_second: 4 });
  assert.equal(begun(meter, 1e12), 4);
  assert.equal(begun(meter, 0), 0, 'back by decades');
  assert.equal(begun(meter, 500), 2, 'and on from there');
  assert.equal(begun(meter, 1e15), 4, 'forward by millennia');
  assert.equal(begun(meter, -1e15), 0);
});

test('other limits keep what was used', () => {
  const meter = meterOf({ requests_per_second: 10, live_readers: 1 });
  assert.equal(begun(meter, 0), 10);
  assert.equal(meter.addReader(), undefined);
  meter.allow({ requests_per_second: 15, live_readers: 2 });
  assert.equal(begun(meter, 0), 5);
  assert.equal(meter.addReader(), undefined);
  assert.equal(meter.addReader()?.code, 'READERS_LIMITED');
  meter.allow({});
  assert.equal(begun(meter, 0), 1000);
  meter.allow({ requests_per_second: 2 });
  assert.equal(begun(meter, 0), 2);
});

const GRANT: Grant = { id: 'till', expiresAtMs: Infinity, scopes: [] };

function bookOf(node: Partial<typeof NO_LIMITS>): LimitBook {
  return new LimitBook({ node: { ...NO_LIMITS, ...node }, tokens: [['vip', { requests_per_second: 100 }]] });
}

test('without limits nothing is kept', () => {
  const book = new LimitBook();
  const meters = new RequestMeters(book);
  for (let i = 0; i < 1000; i++) {
    assert.equal(meters.begin({ ...GRANT, id: `t${i}` }, 0) ?? meters.enter(`b${i}`, 0), undefined);
  }
  assert.deepEqual([book.tokens.size, book.buckets.size], [0, 0]);
  const own = bookOf({ buckets: [['shop', { requests_per_second: 1 }]] });
  for (let i = 0; i < 1000; i++) own.ofBucket(`b${i}`);
  assert.deepEqual([own.buckets.size, own.ofBucket('shop')?.allowance], [0, { requests_per_second: 1 }]);
});

test('own limits stand in for those of all, one by one', () => {
  const book = bookOf({ token: { requests_per_second: 1, live_readers: 3 } });
  assert.deepEqual(book.ofToken(GRANT)?.allowance, { requests_per_second: 1, live_readers: 3 });
  assert.deepEqual(book.ofToken({ ...GRANT, id: 'vip' })?.allowance, { requests_per_second: 100, live_readers: 3 });
  const claimed = { ...GRANT, id: 'x', account: 'issuer:x', limits: { live_readers: 1 } };
  assert.deepEqual(book.ofToken(claimed)?.allowance, { requests_per_second: 1, live_readers: 1 });
  book.replace({ node: { ...NO_LIMITS, token: { live_readers: 9 } }, tokens: [] });
  assert.deepEqual(book.ofToken(claimed)?.allowance, { live_readers: 1 });
  assert.deepEqual(book.ofToken({ ...GRANT, id: 'vip' })?.allowance, { live_readers: 9 });
  assert.equal(book.ofToken({ ...claimed, id: 'y' }), book.ofToken(claimed), 'a child is its parent');
});

test('names from outside are kept up to a number, and what has live readers stays', () => {
  const book = bookOf({ bucket: { requests_per_second: 1, live_readers: 1 } });
  const kept = book.ofBucket('kept');
  assert.equal(kept?.addReader(), undefined);
  for (let i = 0; i < 50_000; i++) book.ofBucket(`b${i}`)?.begin(0);
  assert(book.buckets.size <= 10_000, `${book.buckets.size} are kept`);
  assert.equal(book.ofBucket('kept'), kept);
  assert.notEqual(book.ofBucket('b49999')?.begin(0), undefined, 'the newest are known');
});

test('naming others frees no bucket that is at its limit', () => {
  const book = bookOf({ bucket: { requests_per_second: 10 }, buckets: [['named', { requests_per_second: 1 }]] });
  const named = book.ofBucket('named');
  const shop = book.ofBucket('shop');
  for (let i = 0; i < 20; i++) shop?.begin(0);
  for (let i = 0; i < 9998; i++) book.ofBucket(`old${i}`)?.begin(-5000);
  for (let i = 0; i < 20_000; i++) book.ofBucket(`other${i}`);
  assert.equal(book.ofBucket('shop'), shop);
  book.clockMs = 5000;
  for (let i = 0; i < 20_000; i++) book.ofBucket(`more${i}`);
  assert.notEqual(book.ofBucket('shop'), shop, 'it has been idle since');
  assert.equal(book.ofBucket('named'), named);
});

test("two tokens of one holder do not undo each other's limits", () => {
  const book = bookOf({});
  const one = { ...GRANT, expiresAtMs: 2000, limits: { requests_per_second: 1 } };
  const two = { ...GRANT, expiresAtMs: 1000, limits: { bytes_per_second: 10 } };
  let passed = 0;
  for (let i = 0; i < 100; i++)
    for (const grant of [one, two]) if (book.ofToken(grant)?.begin(0) === undefined) passed++;
  assert.equal(passed, 1);
  assert.deepEqual(
    book.ofToken({ ...two, expiresAtMs: 3000 })?.allowance,
    { bytes_per_second: 10 },
    'the last to expire',
  );
});

test('a debt is forgiven after an hour, of a limit that was lowered too', () => {
  const meter = new Meter('x', { bytes_per_second: 50_000_000 });
  meter.begin(0);
  meter.spend(5_000_000_000);
  meter.allow({ bytes_per_second: 100_000 });
  assert.equal(meter.begin(0)?.retrySeconds, 3601);
  assert.equal(meter.begin(3_601_000), undefined);
});

test('what a bucket refuses holds no reader of its token', () => {
  const book = bookOf({ token: { live_readers: 2 }, bucket: { live_readers: 1 } });
  const [one, two] = [new RequestMeters(book), new RequestMeters(book)];
  for (const meters of [one, two]) meters.follow(GRANT, 'shop');
  assert.equal(one.addReader(), undefined);
  assert.match(two.addReader()?.detail ?? '', /bucket "shop" has live_readers = 1/);
  assert.equal(book.ofToken(GRANT)?.used.readers, 1);
  two.removeReader();
  for (const _ of [1, 2]) one.removeReader();
  assert.deepEqual([book.ofToken(GRANT)?.used.readers, book.ofBucket('shop')?.used.readers], [0, 0]);
});

test('what is no limit is refused with its place', () => {
  const faults: readonly (readonly [unknown, string])[] = [
    [[], 'limits'],
    [null, 'limits'],
    ['x', 'limits'],
    [{ requests: 1 }, 'limits.requests'],
    [{ __proto__: null, constructor: 1 }, 'limits.constructor'],
    ...[0, -1, 1.5, 2 ** 53, Infinity, Number.NaN, '5', null, {}].map(
      (value) => [{ requests_per_second: value }, 'limits.requests_per_second'] as const,
    ),
    [{ live_readers: 1e7 + 1 }, 'limits.live_readers'],
  ];
  for (const [raw, place] of faults) {
    const parsed = parseUseLimits(raw, 'limits');
    assert(!isUseLimits(parsed), JSON.stringify(raw));
    assert.equal(parsed.place, place);
  }
  assert.deepEqual(parseUseLimits({ bytes_per_second: 2 ** 40 }, 'x'), { bytes_per_second: 2 ** 40 });
});

test('metrics show those that were refused most, and count those that are gone', () => {
  const book = bookOf({ bucket: { requests_per_second: 1 } });
  for (let i = 0; i < 100; i++) for (let n = 0; n <= i; n++) book.ofBucket(`b${i}`)?.begin(0);
  for (let n = 0; n < 2; n++) book.ofToken({ ...GRANT, id: 'vip' })?.begin(0);
  const all = 4950;
  const { limited, limit_refusals } = book.metrics() as { limited: MeteredUse[]; limit_refusals: number };
  assert.equal(limit_refusals, all);
  assert.deepEqual(limited[0], { kind: 'token', name: 'vip', requests: 2, bytes: 0, refused: 0, readers: 0 });
  assert.deepEqual(limited[1], { kind: 'bucket', name: 'b99', requests: 1, bytes: 0, refused: 99, readers: 0 });
  assert.deepEqual(
    limited.slice(1).map(({ name }) => name),
    Array.from({ length: 16 }, (_, i) => `b${99 - i}`),
  );
  for (let i = 0; i < 20_000; i++) book.ofBucket(`c${i}`)?.begin(0);
  assert.equal(book.metrics()['limit_refusals'], all);
});

test('metrics of a token with scopes count all that it may see, and not only what is shown', () => {
  const book = bookOf({ bucket: { requests_per_second: 1 } });
  for (let i = 0; i < 100; i++) for (let n = 0; n <= i; n++) book.ofBucket(`b${i}`)?.begin(0);
  const grant = { ...GRANT, scopes: Array.from({ length: 20 }, (_, i) => scopeOf(`b${i}`, '*', 'list')) };
  const { limited, limit_refusals } = book.metrics(grant) as { limited: MeteredUse[]; limit_refusals: number };
  assert.deepEqual([limited.length, limit_refusals], [16, 190]);
});

test('only the token that an account is named after sees it in the metrics', () => {
  const book = bookOf({ token: { requests_per_second: 1 } });
  const seenBy = (id: string, account: string | undefined): readonly string[] => {
    const grant = account === undefined ? { ...GRANT, id } : { ...GRANT, id, account };
    for (let n = 0; n < 3; n++) book.ofToken(grant)?.begin(0);
    const { limited, limit_refusals } = book.metrics(grant) as { limited: MeteredUse[]; limit_refusals: number };
    assert.equal(limit_refusals > 0, limited.length > 0);
    return limited.map(({ name }) => name);
  };
  assert.deepEqual(seenBy('till', undefined), ['till']);
  assert.deepEqual(seenBy('child', 'till'), []);
  assert.deepEqual(seenBy('agent', 'issuer:agent'), ['issuer:agent']);
  assert.deepEqual(seenBy('child', 'issuer:agent'), []);
  assert.deepEqual(seenBy('first', 'node:first'), ['node:first']);
  assert.deepEqual(seenBy('second', 'node:first'), []);
});
