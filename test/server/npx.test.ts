import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOfNpx } from '../../src/server/process.ts';

test('only npm and its shell are the npx that a server ends with, not a program that npx runs', () => {
  for (const command of ["sh -c 'millrace' --data 'a b' ", "/bin/sh -c -- 'millrace'", 'npm exec millrace --data a b'])
    assert(isOfNpx(command, "'millrace'"), command);
  // These and what they start have inherited the variables of npm.
  for (const command of ['node /x/node_modules/.bin/tool --with', 'bash -l', '/sbin/init', ''])
    assert(!isOfNpx(command, "'tool'"), command);
  assert(!isOfNpx('sh -c server', undefined));
});
