// Refusals travel between nodes of different versions as numbers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NUMBERED } from '../../src/base/error-numbers.ts';
import { ERRORS, type ErrorCode, errorCode, errorNumber, generalCode } from '../../src/base/errors.ts';

const ALL = Object.keys(ERRORS) as ErrorCode[];

test('every code has a unique number in the list that never changes', () => {
  assert.deepEqual(ALL.toSorted(), [...NUMBERED].sort());
  assert.equal(new Set(ALL.map(errorNumber)).size, ALL.length);
  for (const code of ALL) assert.equal(errorCode(errorNumber(code)), code);
  assert.equal(new Set(NUMBERED).size, NUMBERED.length);
});

test('codes of the first release keep their numbers when the table grows', () => {
  NUMBERED.forEach((code, number) => assert.equal(errorNumber(code), number, code));
  const first = [
    'OK',
    'NO_LEADER',
    'OUTCOME_UNKNOWN',
    'DISK_FULL',
    'STOPPING',
    'UNCOMMITTED_FULL',
    'INTERNAL',
    'QUOTA_UNKNOWN',
    'CONTENT_ENCODING',
    'UPGRADE_UNFINISHED',
  ] as const;
  assert.deepEqual(first.map(errorNumber), [0, 61, 63, 64, 65, 78, 79, 80, 81, 88]);
});

test('refusals with their own sentence have the code of their status', () => {
  const statuses = [400, 403, 404, 409, 413, 503, 500, 418];
  const codes = ['INVALID_REQUEST', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'BODY_TOO_LARGE', 'UNAVAILABLE'];
  assert.deepEqual(statuses.map(generalCode), [...codes, 'INTERNAL', 'INTERNAL']);
});

test('a number that this version does not know is an internal error', () => {
  for (const number of [ALL.length, 65_535, -1, 0.5]) assert.equal(errorCode(number), 'INTERNAL');
});
