// Subscriptions of tokens with scopes: never to more than they may read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LimitBook } from '../../src/access/limit-book.ts';
import { type Grant, decide } from '../../src/access/scopes.ts';
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
