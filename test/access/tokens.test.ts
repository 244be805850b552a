// The list of tokens: who has which grant, what is remembered, and who is told when a token ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Credentials, RequestAdmission } from '../../src/access/admission.ts';
import { type GrantHolder, GrantHolders } from '../../src/access/grant-holders.ts';
import type { Grant } from '../../src/access/scopes.ts';
import { StaticTokens } from '../../src/access/static-tokens.ts';
import { SCOPED_TOKEN_BYTES_MAX } from '../../src/base/limits.ts';
import type { TokenList } from '../../src/base/scopes.ts';
import { listed, scopeOf, textOf } from '../support/scoped-tokens.ts';

const READ = [scopeOf('b', '*', 'read')];
const NO_QUERY = { getQuery: () => undefined };

function listOf(ids: readonly string[], revoked: readonly string[] = []): TokenList {
  return { tokens: ids.map((id) => listed(id, READ)), revoked };
}

function granted(found: unknown): Grant {
  assert(typeof found === 'object' && found !== null, String(found));
  return found as Grant;
}

test('each token of the list has its grant, until it expires, is revoked or is gone', () => {
  const book = new StaticTokens({ tokens: [listed('a', READ), listed('b', READ, 1000)], revoked: [] });
  const a = granted(book.grantOf(textOf('a'), 0));
  const b = granted(book.grantOf(textOf('b'), 999));
  assert.deepEqual([a.id, b.id], ['a', 'b']);
  assert.equal(book.grantOf(textOf('b'), 1000), 'expired');
  for (const text of ['', 'a', textOf('c'), `${textOf('a')} `, textOf('a').toUpperCase()]) {
    assert.equal(book.grantOf(text, 0), 'unknown', text);
  }
  // The digest itself opens nothing.
  assert.equal(book.grantOf(listed('a', READ).sha256, 0), 'unknown');

  book.replace({ tokens: [listed('a', READ), listed('b', [scopeOf('c', '*', 'read')])], revoked: [] });
  assert.equal(book.grantOf(textOf('a'), 0), a, 'an entry that says the same keeps its grant');
  assert.deepEqual([book.holds(a), book.holds(b)], [true, false]);
  book.replace(listOf(['a', 'b'], ['a']));
  assert.equal(book.grantOf(textOf('a'), 0), 'revoked');
  assert.equal(book.holds(a), false);
  book.replace(listOf([]));
  assert.equal(book.grantOf(textOf('a'), 0), 'unknown');
});

/** A plane with the tokens `a` and `b` of a list. */
function admissionWith(token: string, list: TokenList | undefined): [RequestAdmission, StaticTokens | undefined] {
  const book = list === undefined ? undefined : new StaticTokens(list);
  const policy = { refuses: () => undefined };
  return [new RequestAdmission({ policy, token, book, routes: { access: () => 'token' } }), book];
}

function kindOf(credentials: Credentials): string {
  return typeof credentials === 'string' ? credentials : `grant ${credentials.id}`;
}

test('credentials come from the header and from nothing else', () => {
  const [admission] = admissionWith('the-token', listOf(['a'], ['z']));
  const kinds: readonly (readonly [string, string])[] = [
    ['', 'missing'],
    ['Basic dXNlcjpwYXNz', 'missing'],
    [`Basic ${textOf('a')}`, 'missing'],
    [textOf('a'), 'missing'],
    ['Bearer ', 'unknown'],
    ['Bearer', 'missing'],
    ['Bearer the-token', 'all'],
    ['bearer  the-token ', 'all'],
    ['Bearer the-tokeN', 'unknown'],
    [`Bearer ${textOf('a')}`, 'grant a'],
    [`Bearer ${textOf('a')}`, 'grant a'],
    [`BEARER   ${textOf('a')}`, 'grant a'],
    [`Bearer ${textOf('a')},Bearer x`, 'unknown'],
    [`Bearer ${textOf('b')}`, 'unknown'],
    [`Bearer ${'x'.repeat(SCOPED_TOKEN_BYTES_MAX)}`, 'unknown'],
    [`Bearer ${'x'.repeat(SCOPED_TOKEN_BYTES_MAX + 1)}`, 'oversized'],
  ];
  for (const [authorization, expected] of kinds) {
    assert.equal(
      kindOf(admission.credentialsOf({ authorization }, NO_QUERY, 'post')),
      expected,
      authorization.slice(0, 60),
    );
  }
  const [plain] = admissionWith('the-token', undefined);
  assert.equal(plain.credentialsOf({ authorization: `Bearer ${textOf('a')}` }, NO_QUERY, 'post'), 'unknown');
  const [open] = admissionWith('', undefined);
  assert.equal(open.credentialsOf({ authorization: 'Bearer x' }, NO_QUERY, 'post'), 'open');
  const [empty] = admissionWith('', listOf([]));
  assert.equal(empty.credentialsOf({ authorization: '' }, NO_QUERY, 'post'), 'missing', 'an empty list opens nothing');
});

test('a remembered token is forgotten with the list, and expires', () => {
  const soon = Date.now() + 50;
  const [admission, book] = admissionWith('', { tokens: [listed('a', READ), listed('b', READ, soon)], revoked: [] });
  const ask = (id: string): string =>
    kindOf(admission.credentialsOf({ authorization: `Bearer ${textOf(id)}` }, NO_QUERY, 'post'));
  for (let i = 0; i < 3; i++) assert.equal(ask('a'), 'grant a');
  if (Date.now() < soon) ask('b');
  while (Date.now() < soon) continue;
  assert.equal(ask('b'), 'expired');
  book?.replace(listOf(['a'], ['a']));
  admission.changeGrants();
  assert.equal(ask('a'), 'revoked');
  // Many headers of one token push nothing else out for good.
  book?.replace(listOf(['a']));
  admission.changeGrants();
  for (let i = 0; i < 3000; i++) {
    const authorization = `Bearer ${' '.repeat(i % 1500)}${textOf('a')}`;
    assert.equal(kindOf(admission.credentialsOf({ authorization }, NO_QUERY, 'post')), 'grant a');
  }
});

/** A clock that the test moves, with the timer that is set. */
class Clock {
  now = 0;
  timer: { readonly atMs: number; readonly run: () => void } | undefined;
  nowMs = (): number => this.now;
  after = (ms: number, run: () => void): (() => void) => {
    const timer = { atMs: this.now + ms, run };
    this.timer = timer;
    return () => {
      if (this.timer === timer) this.timer = undefined;
    };
  };

  /** Runs timers until there is none before `ms`. */
  advance(ms: number): void {
    for (let rounds = 0; this.timer !== undefined && this.timer.atMs <= ms; rounds++) {
      assert(rounds < 10_000, 'a timer that is always due');
      const { atMs, run } = this.timer;
      this.timer = undefined;
      this.now = Math.max(this.now, atMs);
      run();
    }
    this.now = ms;
  }
}

class Holder implements GrantHolder {
  ended = 0;
  grantEnded(): void {
    this.ended++;
  }
}

const grantUntil = (id: string, expiresAtMs: number): Grant => ({ id, expiresAtMs, scopes: READ });

test('holders end when their token expires: one timer, for the nearest', () => {
  const clock = new Clock();
  const holders = new GrantHolders(() => true, clock);
  const [early, late, never] = [grantUntil('e', 1000), grantUntil('l', 10_000_000), grantUntil('n', Infinity)];
  const held = [early, early, late, never, early].map((grant) => {
    const holder = new Holder();
    holders.hold(grant, holder);
    return holder;
  });
  holders.release(early, held[4] as Holder);
  const ended = (): number[] => held.map((holder) => holder.ended);
  clock.advance(999);
  assert.deepEqual(ended(), [0, 0, 0, 0, 0]);
  clock.advance(1000);
  assert.deepEqual(ended(), [1, 1, 0, 0, 0]);
  clock.advance(9_999_999);
  assert.deepEqual(ended(), [1, 1, 0, 0, 0]);
  clock.advance(10_000_000);
  assert.deepEqual(ended(), [1, 1, 1, 0, 0]);
  assert.equal(clock.timer, undefined, 'what never expires needs no timer');
  assert.equal(holders.size, 1);
});

test('a clock that jumps ahead ends holders within a minute', () => {
  const clock = new Clock();
  const holders = new GrantHolders(() => true, clock);
  const holder = new Holder();
  holders.hold(grantUntil('a', 86_400_000), holder);
  const { atMs = Infinity, run } = clock.timer ?? {};
  assert(atMs <= 60_000, `looked at in ${atMs} ms`);
  clock.now = 90_000_000;
  run?.();
  assert.equal(holder.ended, 1);
});

test('a change of the tokens ends the holders of those that are gone', () => {
  const clock = new Clock();
  let isThere: (grant: Grant) => boolean = () => true;
  const holders = new GrantHolders((grant) => isThere(grant), clock);
  const [kept, gone] = [grantUntil('k', 5000), grantUntil('g', Infinity)];
  const [stays, ends] = [new Holder(), new Holder()];
  holders.hold(kept, stays);
  holders.hold(gone, ends);
  isThere = (grant) => grant === kept;
  holders.recheck();
  assert.deepEqual([stays.ended, ends.ended], [0, 1]);
  // A request that was let in before, and whose reader begins now.
  const late = new Holder();
  holders.hold(gone, late);
  assert.equal(late.ended, 0, 'not within the call');
  clock.advance(1);
  assert.deepEqual([stays.ended, late.ended], [0, 1]);
  clock.advance(5000);
  assert.equal(stays.ended, 1);
  holders.release(gone, ends);
  assert.equal(holders.size, 0);
});
