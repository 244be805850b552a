import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completeLock } from '../../scripts/complete-lock.ts';
import type { LockPackages } from '../../scripts/complete-lock.ts';
import { VERSION } from '../../src/config/version.ts';
import { readText, sourcePaths } from './repository.ts';

/** Beyond this a file is two ideas. The linter warns at 400. */
const FILE_LINES_MAX = 450;

test('no source file is longer than two ideas', () => {
  const paths = sourcePaths(['src', 'workers', 'bench', 'test', 'scripts']);
  assert.ok(paths.length > 20);
  const tooLong = paths
    .map((path) => ({ path, lines: readText(path).split('\n').length - 1 }))
    .filter(({ lines }) => lines > FILE_LINES_MAX);
  assert.deepEqual(tooLong, []);
});

test('the version that the server tells is the version of the package', () => {
  assert.equal((JSON.parse(readText('package.json')) as { version: string }).version, VERSION);
});

test('the lockfile names the native packages of every platform, else npm ci refuses it (npm run lock)', () => {
  const lock = JSON.parse(readText('package-lock.json')) as { packages: LockPackages };
  assert.deepEqual(completeLock(lock.packages), []);
});

test('a native package that the lockfile lacks is added for its platform only', () => {
  const packages: LockPackages = {
    '': {},
    'node_modules/a': {
      version: '1.0.0',
      dev: true,
      optionalDependencies: { '@a/linux-arm64-musl': '1.0.0', '@a/win32-x64': '1.0.0', '@a/darwin-x64': '2.0.0' },
    },
    'node_modules/@a/win32-x64': { version: '1.0.0' },
    'node_modules/@a/darwin-x64': { version: '1.0.0' },
  };
  assert.deepEqual(completeLock(packages), [
    'node_modules/@a/linux-arm64-musl',
    'node_modules/a/node_modules/@a/darwin-x64',
  ]);
  assert.deepEqual(packages['node_modules/@a/linux-arm64-musl'], {
    version: '1.0.0',
    dev: true,
    optional: true,
    os: ['linux'],
    cpu: ['arm64'],
    libc: ['musl'],
  });
  assert.deepEqual(completeLock(packages), []);
  assert.throws(
    () => completeLock({ 'node_modules/b': { optionalDependencies: { c: '1.0.0' } } }),
    /no package of one platform/,
  );
});
