/**
 * Several test files in one process, one after the other: `node shared-process.js FILE...`. In front of the tests of
 * each file runs one that names it, because tests that a helper makes are written in the file of the helper.
 */
import process from 'node:process';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { FILE_MARK } from './events.ts';

for (const file of process.argv.slice(2)) {
  void test(FILE_MARK + file, () => undefined);
  await import(pathToFileURL(file).href);
}
