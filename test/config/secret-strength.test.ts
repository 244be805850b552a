// What passes for a secret: what generators make does, what people type does not.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { weaknessOf } from '../../src/config/secret-strength.ts';

test('what a random generator made is taken', () => {
  const makers = {
    hex128: () => randomBytes(16).toString('hex'),
    hex256: () => randomBytes(32).toString('hex'),
    hex512: () => randomBytes(64).toString('hex').toUpperCase(),
    base64: () => randomBytes(16).toString('base64'),
    base64url: () => randomBytes(32).toString('base64url'),
    uuid: () => randomUUID(),
  };
  for (const [name, make] of Object.entries(makers)) {
    const refused = Array.from({ length: 2000 }, make).filter((secret) => weaknessOf(secret) !== undefined);
    assert(refused.length <= 4, `${name}: ${refused.length} of 2000, such as ${refused[0]}`);
  }
});

test('what people type is refused, with the reason', () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['x', /bits/],
    ['of-the-tests', /bits/],
    ['correct-horse-battery-staple', /bits/],
    ['CorrectHorseBatteryStapleProduction', /bits/],
    ['MyCompanyProductionSecret2024', /bits/],
    ['changeme-changeme-changeme-changeme', /bits/],
    ['0123456789abcdef0123456789abcde', /bits/],
    [randomBytes(15).toString('hex'), /bits/],
    ['0'.repeat(64), /different/],
    ['deadbeef'.repeat(8), /different/],
    ['aB3'.repeat(20), /different/],
    ['0123456789abcdef'.repeat(4), /pattern/],
    ['S3cr3tS-4ndM0r3xYzq'.repeat(3), /pattern/],
    ['0123456789abcdefedcba98765432100', /follow/],
  ];
  for (const [secret, reason] of cases) assert.match(weaknessOf(secret) ?? 'nothing', reason, secret);
});
