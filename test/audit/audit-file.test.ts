// The audit log's own file: rotation, a disk that is full, and what is lost when too much waits.
import assert from 'node:assert/strict';
import fs, { existsSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AuditFile } from '../../src/audit/audit-file.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

/** Every write to it fails as on a full disk. */
const FULL = '/dev/full';

interface Rig {
  readonly file: AuditFile;
  readonly path: string;
  readonly troubles: unknown[];
  lines(path?: string): string[];
}

interface RigOptions {
  readonly prepare?: (path: string) => void;
  /** Called after a write, before the next one. */
  readonly onLost?: () => void;
}

function open(t: TestContext, { prepare = () => undefined, onLost = () => undefined }: RigOptions = {}): Rig {
  const folder = temporaryFolder('audit');
  const path = join(folder, 'audit.log');
  prepare(path);
  const troubles: unknown[] = [];
  const file = new AuditFile({
    path,
    runtime: PROCESS_RUNTIME,
    troubled: (error) => troubles.push(error),
    lostLine: (lines) => {
      onLost();
      return `lost ${lines}\n`;
    },
  });
  t.after(async () => {
    await file.close();
    removeFolder(folder);
  });
  const lines = (of = path): string[] => readFileSync(of, 'utf8').split('\n').slice(0, -1);
  return { file, path, troubles, lines };
}

test('lines of one turn arrive in order, in a file for its owner alone', async (t) => {
  const { file, path, lines } = open(t);
  const wanted = Array.from({ length: 1000 }, (_, i) => `line ${i}`);
  for (const line of wanted) file.add(`${line}\n`);
  await until('all are there', () => lines().length === wanted.length);
  assert.deepEqual(lines(), wanted);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('after a rotation lines go to a new file, none is lost, and the main thread waits for no disk', async (t) => {
  const { file, path, lines } = open(t);
  const waits = ['openSync', 'closeSync', 'fstatSync'] as const;
  const mocks = waits.map((name) => t.mock.method(fs, name, () => assert.fail(`${name} would hang with the disk`)));
  syncBuiltinESMExports();
  file.add('one\n');
  await until('it is there', () => lines().length === 1);
  renameSync(path, `${path}.1`);
  file.reopen();
  file.add('two\n');
  await until('it is in the new file', () => {
    try {
      return lines().length === 1;
    } catch {
      return false;
    }
  });
  assert.deepEqual([lines(`${path}.1`), lines()], [['one'], ['two']]);
  for (const { mock } of mocks) mock.restore();
  syncBuiltinESMExports();
});

test('after a rotation while lines are written the next ones go to the new file', async (t) => {
  const onLost = (): void => {
    renameSync(path, `${path}.1`);
    file.reopen();
  };
  const { file, path, lines } = open(t, { onLost });
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 1025; i++) file.add(line);
  // Its lines are seen one by one, and under this name until the rotation.
  await until('the next line is there', () => existsSync(path) && lines().at(-1) === 'lost 1');
  assert.deepEqual([lines(`${path}.1`).length, lines()], [1024, ['lost 1']]);
});

test('on a full disk lines wait, the trouble is told once, and a gap is told in the file', async (t) => {
  const { file, path, troubles, lines } = open(t, { prepare: (path) => symlinkSync(FULL, path) });
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 1024; i++) file.add(line);
  await until('the disk is full', () => troubles.length > 0);
  for (let i = 0; i < 100; i++) file.add(line);
  assert.equal(file.counters.lost, 100, 'what waits is bounded');
  await until('it is tried again', () => file.counters.errors > 1);
  assert.equal(troubles.length, 1);
  rmSync(path);
  file.reopen();
  await until('what waited is there', () => troubles.length === 2);
  assert.equal(troubles[1], undefined);
  assert.deepEqual([lines().length, lines().at(-1)], [1025, 'lost 100']);
  file.add('after\n');
  await until('it goes on', () => lines().at(-1) === 'after');
});

test('what waits is written at the end, also at a sudden one', async (t) => {
  const { file, lines } = open(t);
  file.add('sudden\n');
  file.flush();
  assert.deepEqual(lines(), ['sudden']);
  file.add('last\n');
  await file.close();
  assert.deepEqual(lines(), ['sudden', 'last']);
  file.add('too late\n');
  assert.equal(file.counters.lost, 1);
});
