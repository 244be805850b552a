// Subscriptions of tokens with scopes: never to more than they may read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LimitBook } from '../../src/access/limit-book.ts';
import { type Grant, decide } from '../../src/access/scopes.ts';
import { NO_LIMITS } from '../../src/base/use-limits.ts';
import type { ControlRights, Followed } from '../../src/subscriptions/ports.ts';
import { Glob } from '../../src/base/glob.ts';
import type { Scope } from '../../src/base/scopes.ts';
import { controlRights } from '../../src/tenants/subscription-rights.ts';
import { splitFlatPath } from '../../src/protocol/flat-path.ts';
import { createRandom } from '../support/random.ts';
import { scopeOf } from '../support/scoped-tokens.ts';

function follows(scopes: readonly Scope[], pattern: string | null, paths: readonly string[] = []): boolean {
  return controlRights({ id: 'x', expiresAtMs: Infinity, scopes }, new LimitBook())?.follows(pattern, paths) ?? true;
}

const both = (bucket: string, streams: string): Scope => scopeOf(bucket, streams, 'subscribe', 'read');

test('a subscription to nothing is in no scope', () => {
  assert.equal(follows([both('*', '*')], null, []), false);
  assert.equal(follows([scopeOf('*', '*', 'read')], null, []), false);
});

test('a pattern is covered whole, or not at all', () => {
  const cases: readonly (readonly [readonly Scope[], string, boolean])[] = [
    [[both('jobs', '*')], 'jobs/*', true],
    [[both('jobs', '*')], 'jobs/a/**', true],
    [[both('jobs', 'a/*')], 'jobs/a/*', true],
    [[both('jobs', 'a/*')], 'jobs/a/*/c', true],
    [[both('jobs', 'a/*')], 'jobs/a/b', true],
    [[both('jobs', 'a*')], 'jobs/a/**', true],
    [[both('*', '*')], '**', true],
    [[both('*', '*')], '*/x', true],
    [[both('jobs', 'a/*')], 'jobs/*', false],
    [[both('jobs', 'a/*')], 'jobs/**', false],
    [[both('jobs', 'a/*')], 'jobs/ab/*', false],
    [[both('jobs', 'a/b')], 'jobs/a/*', false],
    [[both('jobs', '*')], '*/*', false],
    [[both('jobs', '*')], '**', false],
    [[both('jobs', '*')], '**/a', false],
    [[both('jobs', '*')], 'other/*', false],
    [[both('*', 'a*')], '**', false],
    // `**` stands for nothing, too: the stream `jobs` of the default bucket, and `a` without a slash behind it.
    [[both('jobs', '*')], 'jobs/**', false],
    [[both('jobs', '*'), both('_default', 'jobs')], 'jobs/**', true],
    [[both('jobs', 'a/*')], 'jobs/a/**', false],
    [[both('_default', '*')], '*', false],
    [[both('_default', '*')], 'x', true],
    // Both rights, whichever scope has them.
    [[scopeOf('jobs', '*', 'subscribe')], 'jobs/*', false],
    [[scopeOf('jobs', '*', 'read')], 'jobs/*', false],
    [[scopeOf('jobs', '*', 'subscribe'), scopeOf('*', '*', 'read')], 'jobs/*', true],
    [[], 'jobs/a', false],
  ];
  for (const [scopes, pattern, expected] of cases) {
    assert.equal(follows(scopes, pattern), expected, `${pattern} with ${JSON.stringify(scopes)}`);
  }
  assert.equal(follows([both('b', 's')], null, ['b/s']), true);
  assert.equal(follows([both('b', 's')], null, ['b/s', 'b/t']), false);
  assert.equal(follows([both('_default', 's')], null, ['s']), true);
});

test('the sender of a token of another kind has no rights, and the plane without tokens all', () => {
  assert.equal(controlRights('missing', new LimitBook())?.follows(null, []), false);
  assert.equal(controlRights('unknown', new LimitBook())?.appends('b/s'), false);
  assert.equal(controlRights('all', new LimitBook()), undefined);
  assert.equal(controlRights('open', new LimitBook()), undefined);
});

test('what was made is looked at once, and no more of it than the limit takes', () => {
  const limits = new LimitBook({ node: { ...NO_LIMITS, token: { subscriptions: 3 } }, tokens: [] });
  let looks = 0;
  const followed = (pattern: string | null, ...streams: readonly string[]): Followed => ({
    config: {
      pattern,
      get streams() {
        looks++;
        return streams;
      },
    },
  });
  const all = new Map([
    ['streams', followed(null, 'b/s1', 'b/s2')],
    ['pattern', followed('b/s/*')],
    ['of others', followed(null, 'b/s1', 'b/other')],
  ]);
  const make = (): ReturnType<ControlRights['makesOneMore']> | undefined =>
    // Copies of the scopes, as tokens of one parent have.
    controlRights({ id: 'x', expiresAtMs: Infinity, scopes: [both('b', 's*')] }, limits)?.makesOneMore('new', all);
  for (let i = 0; i < 5; i++) {
    const making = make();
    assert(typeof making === 'object', JSON.stringify(making));
    making.made();
  }
  assert.equal(looks, 3);
  all.set('third', followed(null, 'b/s3')).set('fourth', followed(null, 'b/s4'));
  for (let i = 0; i < 5; i++) assert.match(JSON.stringify(make()), /has subscriptions = 3/);
  assert.equal(looks, 4, 'what is beyond the limit is not looked at');
});

test('tenants who share a bucket count each for itself', () => {
  const limits = new LimitBook({ node: { ...NO_LIMITS, token: { subscriptions: 1 } }, tokens: [] });
  const all = new Map([['first', { config: { pattern: null, streams: ['chat/user-1-a'] } }]]);
  const making = (user: number): unknown => {
    const scopes = [both('chat', `user-${user}-*`)];
    return controlRights({ id: `user-${user}`, expiresAtMs: Infinity, scopes }, limits)?.makesOneMore('new', all);
  };
  assert.equal(typeof making(1), 'string');
  assert.equal(typeof making(2), 'object');
});

test('one that is being made counts once, also when it is there already', () => {
  const limits = new LimitBook({ node: { ...NO_LIMITS, token: { subscriptions: 2 } }, tokens: [] });
  const rights = controlRights({ id: 'x', expiresAtMs: Infinity, scopes: [both('b', '*')] }, limits);
  const all = new Map<string, Followed>();
  assert.equal(typeof rights?.makesOneMore('first', all), 'object');
  all.set('first', { config: { pattern: null, streams: ['b/s'] } });
  const second = rights?.makesOneMore('second', all);
  assert(typeof second === 'object', JSON.stringify(second));
  assert.equal(typeof rights?.makesOneMore('third', all), 'string');
  second.made();
  assert.equal(typeof rights?.makesOneMore('third', all), 'object');
});

test('whatever is granted, nothing that a pattern matches may not be read', () => {
  const random = createRandom(0x24);
  const some = (list: readonly string[], most: number): string =>
    Array.from({ length: random.int(1, most) }, () => random.pick(list)).join('/');
  const words = ['a', 'b', 'ab', '_default', ''];
  let granted = 0;
  for (let round = 0; round < 20_000; round++) {
    const scopes = Array.from({ length: random.int(1, 3) }, () =>
      both(
        random.pick(['a', 'b', '_default', '*']),
        random.pick(['*', 'a', 'a*', 'a/*', 'b', 'b*', 'b/a', 'ab*', '/*']),
      ),
    );
    const pattern = some([...words, '*', '**'], 4);
    if (!follows(scopes, pattern)) continue;
    granted++;
    const grant: Grant = { id: 'x', expiresAtMs: Infinity, scopes };
    const glob = new Glob(pattern);
    for (let i = 0; i < 30; i++) {
      const path = some(words, 5);
      if (!glob.matches(path)) continue;
      const { bucket, stream } = splitFlatPath(path);
      assert.equal(decide(grant, 'read', bucket, stream), 'allowed', `${pattern} ${path} ${JSON.stringify(scopes)}`);
    }
  }
  assert(granted > 500, `${granted} patterns were granted`);
});
