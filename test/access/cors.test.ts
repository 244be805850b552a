// Which origin gets which header lines.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAuthorized } from '../../src/access/admission.ts';
import { CorsPolicy } from '../../src/access/cors.ts';
import { etagMatches } from '../../src/protocol/condition.ts';

test('any origin', () => {
  const policy = new CorsPolicy(['*'], 'GET, OPTIONS');
  assert.match(
    policy.blocksFor('https://a.example').answer,
    /^access-control-allow-origin: \*\r\naccess-control-expose-headers: /,
  );
  assert.match(policy.blocksFor('https://a.example').preflight, /if-none-match/i);
  assert.equal(policy.blocksFor('').answer, 'access-control-allow-origin: *');
});

test('a list of origins', () => {
  const policy = new CorsPolicy(['https://a.example', 'https://b.example'], 'GET, OPTIONS');
  assert.match(
    policy.blocksFor('https://b.example').answer,
    /access-control-allow-origin: https:\/\/b\.example\r\n.*vary: Origin/s,
  );
  for (const origin of ['', 'https://c.example', 'https://a.example.evil', 'null']) {
    assert.equal(policy.blocksFor(origin).answer, 'vary: Origin');
  }
  assert.equal(policy.allows('https://b.example'), true);
  assert.equal(policy.allows('https://c.example'), false);
});

test('origins of the loopback, whatever their port', () => {
  const policy = new CorsPolicy(['loopback', 'https://a.example'], 'GET, OPTIONS');
  const good = [
    'http://localhost',
    'https://localhost:3000',
    'http://127.0.0.1:8080',
    'http://127.9.9.9',
    'http://[::1]:1',
  ];
  for (const origin of [...good, 'https://a.example']) {
    assert(policy.blocksFor(origin).answer.startsWith(`access-control-allow-origin: ${origin}\r\n`), origin);
    assert.equal(policy.blocksFor(origin), policy.blocksFor(origin), 'the same object');
  }
  const bad = [
    ...['', 'null', 'loopback', '*', 'http://localhost.evil.example', 'http://evil.example:127', 'file://localhost'],
    ...[
      'http://127.0.0.1.evil.example',
      'http://[::1].example',
      'http://localhost:1\r\nX: y',
      'http://localhost:123456',
    ],
  ];
  for (const origin of bad) assert.equal(policy.blocksFor(origin).answer, 'vary: Origin', origin);
});

test('no origin', () => {
  const policy = new CorsPolicy([], 'GET, OPTIONS');
  assert.equal(policy.readsOrigin, false);
  assert.deepEqual(policy.blocksFor('https://a.example'), { answer: '', shared: '', preflight: '' });
});

test('bearer tokens', () => {
  assert(isAuthorized('', ''));
  assert(isAuthorized('Bearer secret', 'secret'));
  assert(isAuthorized('bEaReR  secret', 'secret'));
  for (const header of [
    '',
    'secret',
    'Bearer',
    'Bearer ',
    'Bearer secre',
    'Bearer secret1',
    'Bearer secretsecret',
    'Basic secret',
  ]) {
    assert(!isAuthorized(header, 'secret'), header);
  }
});

test('If-None-Match', () => {
  const etag = '"0123456789abcdef"';
  for (const header of [etag, '*', ' * ', `"x", ${etag}`, `W/${etag}`, `"a",W/${etag},"b"`])
    assert(etagMatches(header, etag), header);
  for (const header of ['', '"x"', '0123456789abcdef', `x${etag}`, `w/${etag}`, '"*"'])
    assert(!etagMatches(header, etag), header);
});
