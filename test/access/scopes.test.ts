// Scopes: the decision about each operation, the ranges that a listing shows, and what is read from outside.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Grant, decide, decideBucket, rangesOf } from '../../src/access/scopes.ts';
import { SCOPES_PER_TOKEN_MAX } from '../../src/base/limits.ts';
import { SCOPED_OPERATIONS, type Scope, parseScopes } from '../../src/base/scopes.ts';
import { scopeOf } from '../support/scoped-tokens.ts';

function grant(...scopes: readonly Scope[]): Grant {
  return { id: 'test', expiresAtMs: Infinity, scopes };
}

test('a stream is allowed, denied or hidden', () => {
  const reader = grant(scopeOf('shop', 'orders-*', 'read'), scopeOf('shop', 'log', 'append', 'create'));
  const cases = [
    ['read', 'shop', 'orders-1', 'allowed'],
    ['read', 'shop', 'orders-', 'allowed'],
    ['append', 'shop', 'orders-1', 'denied'],
    ['append', 'shop', 'log', 'allowed'],
    ['read', 'shop', 'log', 'denied'],
    ['append', 'shop', 'log2', 'hidden'],
    ['append', 'shop', 'Log', 'hidden'],
    ['read', 'shop', 'orders', 'hidden'],
    ['read', 'shop', 'my-orders-1', 'hidden'],
    ['read', 'Shop', 'orders-1', 'hidden'],
    ['read', 'shopper', 'orders-1', 'hidden'],
    ['read', '', 'orders-1', 'hidden'],
    ['read', 'shop', '', 'hidden'],
    ['read', 'shop', '*', 'hidden'],
  ] as const;
  for (const [operation, bucket, stream, expected] of cases) {
    assert.equal(decide(reader, operation, bucket, stream), expected, `${operation} ${bucket}/${stream}`);
  }
});

test('a grant without scopes allows nothing, and a scope allows no operation that it does not name', () => {
  for (const operation of SCOPED_OPERATIONS) {
    assert.equal(decide(grant(), operation, 'b', 's'), 'hidden');
    assert.equal(decideBucket(grant(), operation, 'b'), 'hidden');
    for (const other of SCOPED_OPERATIONS) {
      const expected = other === operation ? 'allowed' : 'denied';
      assert.equal(decide(grant(scopeOf('*', '*', other)), operation, 'b', 's'), expected, `${other} ${operation}`);
      assert.equal(decideBucket(grant(scopeOf('*', '*', other)), operation, 'b'), expected, `${other} ${operation}`);
    }
  }
});

test('rights of several scopes add up, and never across streams', () => {
  const both = grant(scopeOf('b', 'a*', 'read'), scopeOf('*', 'ab', 'append'));
  assert.equal(decide(both, 'read', 'b', 'ab'), 'allowed');
  assert.equal(decide(both, 'append', 'b', 'ab'), 'allowed');
  assert.equal(decide(both, 'append', 'b', 'abc'), 'denied');
  assert.equal(decide(both, 'read', 'c', 'ab'), 'denied');
  assert.equal(decide(both, 'read', 'c', 'abc'), 'hidden');
});

test('a bucket as a whole takes a scope over all of its streams', () => {
  const part = grant(scopeOf('b', 'a*', 'list', 'delete'), scopeOf('c', '*', 'list'));
  assert.equal(decideBucket(part, 'list', 'b'), 'denied');
  assert.equal(decideBucket(part, 'delete', 'b'), 'denied');
  assert.equal(decideBucket(part, 'list', 'c'), 'allowed');
  assert.equal(decideBucket(part, 'delete', 'c'), 'denied');
  assert.equal(decideBucket(part, 'list', 'd'), 'hidden');
});

test('ranges of a listing do not overlap', () => {
  const shown = (...scopes: readonly Scope[]): string[] =>
    rangesOf(grant(...scopes), 'list', 'b')
      .map(({ prefix, isExact }) => (isExact ? prefix : `${prefix}*`))
      .sort();
  assert.deepEqual(shown(scopeOf('b', 'a*', 'list'), scopeOf('b', 'ab*', 'list'), scopeOf('b', 'ab', 'list')), ['a*']);
  assert.deepEqual(shown(scopeOf('b', 'ab', 'list'), scopeOf('b', 'ab*', 'list'), scopeOf('*', 'a*', 'list')), ['a*']);
  assert.deepEqual(shown(scopeOf('b', 'x', 'list'), scopeOf('b', 'x', 'list'), scopeOf('b', 'y*', 'read')), ['x']);
  assert.deepEqual(shown(scopeOf('c', '*', 'list'), scopeOf('b', 'xy', 'list'), scopeOf('b', 'x', 'list')), [
    'x',
    'xy',
  ]);
  assert.deepEqual(shown(scopeOf('b', 'x', 'list'), scopeOf('*', '*', 'list')), ['*']);
});

test('scopes from outside are understood whole, or refused with their place', () => {
  const good = [{ bucket: 'b', operations: ['read', 'read'] }];
  assert.deepEqual(parseScopes(good), { ok: true, scopes: [{ bucket: 'b', streams: '*', operations: ['read'] }] });
  const deep = JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`) as unknown;
  const bad: readonly (readonly [unknown, string])[] = [
    [undefined, 'scopes'],
    [{}, 'scopes'],
    [[], 'scopes'],
    [Array.from({ length: SCOPES_PER_TOKEN_MAX + 1 }, () => good[0]), 'scopes'],
    [[null], 'scopes[0]'],
    [['read'], 'scopes[0]'],
    [deep, 'scopes[0]'],
    [[{ ...good[0], admin: true }], 'scopes[0]."admin"'],
    [[{ ...good[0], strem: 's' }], 'scopes[0]."strem"'],
    [[{ ...good[0], stream: 's', streams: 's*' }], 'scopes[0]'],
    [[{ ...good[0], stream: '' }], 'scopes[0].stream'],
    [[JSON.parse('{"__proto__":{"bucket":"b"},"operations":["read"]}') as unknown], 'scopes[0]."__proto__"'],
    [[{ operations: ['read'] }], 'scopes[0].bucket'],
    [[{ bucket: '', operations: ['read'] }], 'scopes[0].bucket'],
    [[{ bucket: ['b'], operations: ['read'] }], 'scopes[0].bucket'],
    [[{ bucket: 'b'.repeat(1025), operations: ['read'] }], 'scopes[0].bucket'],
    [[{ bucket: 'b', streams: '', operations: ['read'] }], 'scopes[0].streams'],
    [[{ bucket: 'b', streams: null, operations: ['read'] }], 'scopes[0].streams'],
    [[{ bucket: 'b', streams: 'a\0', operations: ['read'] }], 'scopes[0].streams'],
    [[{ bucket: 'b' }], 'scopes[0].operations'],
    [[{ bucket: 'b', operations: 'read' }], 'scopes[0].operations'],
    [[{ bucket: 'b', operations: [] }], 'scopes[0].operations'],
    [[{ bucket: 'b', operations: Array.from({ length: 17 }, () => 'read') }], 'scopes[0].operations'],
    [[{ bucket: 'b', operations: ['read', 'write'] }], 'scopes[0].operations[1]'],
    [[{ bucket: 'b', operations: ['constructor'] }], 'scopes[0].operations[0]'],
  ];
  for (const [raw, place] of bad) {
    const parsed = parseScopes(raw);
    assert(!parsed.ok, JSON.stringify(raw)?.slice(0, 80));
    assert.equal(parsed.fault.place, place);
  }
});
