// Texts that generators make pass for secrets, texts that people type do not.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { weaknessOf } from '../../src/config/secret-strength.ts';

test('what a random generator made is taken', () => {
  // The same bytes in every run: a few of them are refused, by chance once in a while more.
  const bytes = (count: number, seed: number): Buffer =>
    createHash('sha512').update(String(seed)).digest().subarray(0, count);
  const makers: Readonly<Record<string, (seed: number) => string>> = {
    hex128: (seed) => bytes(16, seed).toString('hex'),
    hex256: (seed) => bytes(32, seed).toString('hex'),
    hex512: (seed) => bytes(64, seed).toString('hex').toUpperCase(),
    base64: (seed) => bytes(16, seed).toString('base64'),
    base64url: (seed) => bytes(32, seed).toString('base64url'),
    uuid: (seed) =>
      bytes(16, seed)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
  };
  for (const [name, make] of Object.entries(makers)) {
    const refused = Array.from({ length: 2000 }, (_, seed) => make(seed)).filter(
      (secret) => weaknessOf(secret) !== undefined,
    );
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
