// Paths: what they mean, and that nothing reserved, empty or ambiguous ever names a stream.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newPath, parsePath } from '../../src/http/paths.ts';
import { flatPath, splitFlatPath } from '../../src/protocol/flat-path.ts';

function parsed(url: string): string {
  const path = newPath();
  parsePath(url, path);
  const { pattern, family, bucket, stream } = path;
  return pattern === '/{bucket}/{stream}' ? `${family} ${bucket} | ${stream}` : pattern;
}

test('a bucketed stream is one segment, whose encoded slashes belong to the name', () => {
  assert.equal(parsed('/demo/hello'), 'bucketed demo | hello');
  assert.equal(parsed('/demo/a%2Fb'), 'bucketed demo | a/b');
  assert.equal(parsed('/demo/%C3%A9'), 'bucketed demo | é');
  assert.equal(parsed('/demo/a+b~c:d@e'), 'bucketed demo | a+b~c:d@e');
  assert.equal(parsed('/demo/a..b'), 'bucketed demo | a..b');
  assert.equal(parsed('/v2/x'), 'bucketed v2 | x');
});

test('a flat path is decoded, then split at the first slash', () => {
  assert.equal(parsed('/v1/stream/x'), 'flat _default | x');
  assert.equal(parsed('/v1/stream/b/s'), 'flat b | s');
  assert.equal(parsed('/v1/stream/b/s/t/u'), 'flat b | s/t/u');
  assert.equal(parsed('/v1/stream/b%2Fs'), 'flat b | s');
  assert.equal(parsed('/v1/stream/b/attrs'), 'flat b | attrs');
  assert.equal(parsed('/v1/stream/b/streams'), 'flat b | streams');
});

test('empty and dotted segments are part of a name on both families', () => {
  for (const [path, name] of [
    ['a/b/', 'a | b/'],
    ['a%2Fb%2f', 'a | b/'],
    ['a//', 'a | /'],
    ['a//b', 'a | /b'],
    ['a/b//c///', 'a | b//c///'],
    ['_default/b/', '_default | b/'],
    ['a/.', 'a | .'],
    ['a/%2e/b', 'a | ./b'],
    ['a/...', 'a | ...'],
    ['a/b%252F', 'a | b%2F'],
  ] as const) {
    assert.equal(parsed(`/v1/stream/${path}`), `flat ${name}`);
    const [bucket = '', stream = ''] = name.split(' | ');
    assert.equal(parsed(`/${bucket}/${encodeURIComponent(stream)}`), `bucketed ${name}`);
    assert.deepEqual(splitFlatPath(flatPath(bucket, stream)), { bucket, stream }, 'every stream has one path');
  }
  // `..` is refused between, before and behind empty segments too.
  for (const path of ['a/..', 'a//..', 'a/../', 'a//../b', 'a/%2e%2e/', 'a/b/.%2E', '../', '..//b']) {
    assert.equal(parsed(`/v1/stream/${path}`), 'invalid', path);
  }
});

test('sub-resources and lists', () => {
  assert.equal(parsed('/b'), '/{bucket}');
  assert.equal(parsed('/b/streams'), '/{bucket}/streams');
  assert.equal(parsed('/b/%73treams'), '/{bucket}/streams');
  assert.equal(parsed('/b/s/attrs'), '/{bucket}/{stream}/attrs');
  assert.equal(parsed('/b/s/append-batch'), '/{bucket}/{stream}/append-batch');
  assert.equal(parsed('/b/s/bootstrap'), '/{bucket}/{stream}/bootstrap');
  for (const kind of ['snapshot', 'retention']) {
    const path = newPath();
    for (const [rest, detail] of [
      [kind, ''],
      [`${kind}/5`, '5'],
      [`${kind}/%2F`, '%2F'],
    ]) {
      parsePath(`/b/s/${rest}`, path);
      const pattern = `/{bucket}/{stream}/${kind}${detail === '' ? '' : '/{offset}'}`;
      assert.deepEqual([path.pattern, path.bucket, path.stream, path.detail], [pattern, 'b', 's', detail], rest);
    }
    for (const rest of [`${kind}/`, `${kind}/5/`, `${kind}/5/6`]) assert.equal(parsed(`/b/s/${rest}`), 'none', rest);
  }
  for (const path of ['/b/s/append-batch/', '/b/s/append-batch/x', '/b/s/bootstrap/x']) {
    assert.equal(parsed(path), 'none', path);
  }
  for (const path of ['/', '/b/s/t', '/b/s/', '/b/s/attrs/', '/b/s/attrs/x', '/b/s/t/u', '/b//s']) {
    assert.equal(parsed(path), 'none', path);
  }
  assert.equal(parsed('/__svc/metrics'), '/__svc/*');
  for (const path of ['/__other/x', '/__svc', '/__svcx/y', '/__x']) assert.equal(parsed(path), 'invalid', path);
});

test('reserved, empty and dangerous names are invalid in both families', () => {
  const names = [
    '%00',
    'a%00b',
    '..',
    '%2e%2e',
    '..%2fx',
    'a%2f..%2fb',
    'x%2f..',
    '%',
    '%zz',
    'a%2',
    '%ff',
    '%c0%af',
    '%ed%a0%80',
    '__x',
  ];
  for (const name of names) {
    assert.equal(parsed(`/b/${name}`), 'invalid', `/b/${name}`);
    assert.equal(parsed(`/v1/stream/b/${name}`), 'invalid', `/v1/stream/b/${name}`);
  }
  for (const path of ['/b/', '//x', '/v1', '/v1/x', '/v1/stream', '/v1/stream/', '/v1/stream/v1/x', '/%76%31/x']) {
    assert.equal(parsed(path), 'invalid', path);
  }
  for (const path of ['/v1/stream//x', '/v1/stream/a/', '/v1/stream/a%2F', '/v1/stream/__svc/x', '/v1/stream/__x']) {
    assert.equal(parsed(path), 'invalid', path);
  }
  for (const path of ['/%5f%5fsvc/x', '/../x', '/%2e%2e/x', '/b/a\u00e9', '/b/a\ufffd', '/b/a b', '/b/a\u0001']) {
    assert.equal(parsed(path), 'invalid', path);
  }
});

test('bucket and stream together are limited to 1 KiB after decoding', () => {
  assert.equal(parsed(`/b/${'n'.repeat(1023)}`), `bucketed b | ${'n'.repeat(1023)}`);
  assert.equal(parsed(`/b/${'n'.repeat(1024)}`), 'invalid');
  assert.equal(parsed(`/b/${'%C3%A9'.repeat(511)}`), `bucketed b | ${'é'.repeat(511)}`);
  assert.equal(parsed(`/b/${'%C3%A9'.repeat(512)}`), 'invalid');
  assert.equal(parsed(`/${'b'.repeat(1025)}`), 'invalid');
});
