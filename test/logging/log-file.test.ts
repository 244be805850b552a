// A log file that is moved away: the lines that follow go to a new one, from every thread, with SIGHUP and without.
import assert from 'node:assert/strict';
import fs, { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import { HELD_BYTES_MAX, LogFile } from '../../src/logging/log-file.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

test('a file that was moved or removed is opened again within a second of lines; a folder that is away loses none', (t) => {
  const folder = temporaryFolder('log');
  t.after(() => removeFolder(folder));
  const path = join(folder, 'node.log');
  let clockMs = 10_000;
  const log = new LogFile(path, () => clockMs);
  log.write('one\n');
  renameSync(path, `${path}.1`);
  log.write('two\n');
  assert.equal(readFileSync(`${path}.1`, 'utf8'), 'one\ntwo\n');
  clockMs += 1000;
  log.write('three\n');
  assert.equal(readFileSync(path, 'utf8'), 'three\n');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  rmSync(path);
  log.lookNow();
  log.write('four\n');
  assert.equal(readFileSync(path, 'utf8'), 'four\n');
  renameSync(folder, `${folder}-away`);
  log.lookNow();
  log.write('five\n');
  assert.equal(readFileSync(join(`${folder}-away`, 'node.log'), 'utf8'), 'four\nfive\n');
  mkdirSync(folder);
  rmSync(`${folder}-away`, { recursive: true });
  log.lookNow();
  log.write('six\n');
  assert.equal(readFileSync(path, 'utf8'), 'six\n');
});

test('lines that a full disk does not take wait in bounded memory', (t) => {
  const folder = temporaryFolder('log');
  t.after(() => removeFolder(folder));
  const path = join(folder, 'node.log');
  symlinkSync('/dev/full', path);
  const log = new LogFile(path, () => 0);
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 1024; i++) log.write(line);
  rmSync(path);
  log.lookNow();
  log.write('later\n');
  const lines = readFileSync(path, 'utf8').split('\n');
  assert.deepEqual([lines.length, lines.at(-2)], [HELD_BYTES_MAX / line.length + 2, 'later']);
});

test('the file before is closed once, however often reopening failed', async (t) => {
  const folder = temporaryFolder('log');
  const log = new LogFile(join(folder, 'node.log'), () => 0);
  const tick = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  await tick();
  const { close } = fs;
  const closed: number[] = [];
  const counted = (descriptor: number, done: (error: Error | null) => void): void => {
    closed.push(descriptor);
    close(descriptor, done);
  };
  Object.assign(fs, { close: counted });
  t.after(() => {
    Object.assign(fs, { close });
    removeFolder(folder);
    removeFolder(`${folder}-away`);
  });
  renameSync(folder, `${folder}-away`);
  for (let i = 0; i < 3; i++) {
    log.lookNow();
    log.write('away\n');
  }
  mkdirSync(folder);
  log.lookNow();
  log.write('back\n');
  await tick();
  assert.equal(closed.length, 1, `closed: ${closed.join(' ')}`);
});

test('a file that cannot be opened is a sentence', () => {
  assert.throws(
    () => new LogFile('/nowhere/at/all/node.log', () => 0),
    (error) => error instanceof ConfigError && error.message.startsWith('MILLRACE_LOG_FILE: /nowhere/at/all/node.log'),
  );
});

test('a running node writes to the new file after SIGHUP', async () => {
  const folder = temporaryFolder('log');
  const path = join(folder, 'node.log');
  const server = new TestServer({ process: true, env: { MILLRACE_LOG_FILE: path } });
  try {
    await server.start();
    await until('it says that it listens', () => /"msg":"listening"/.test(readFileSync(path, 'utf8')));
    renameSync(path, `${path}.1`);
    process.kill(server.pid, 'SIGHUP');
    // Nothing tells across processes that a file has grown.
    const read = (): string => {
      try {
        return readFileSync(path, 'utf8');
      } catch {
        return '';
      }
    };
    await until('it is reloaded', () => /"msg":"reloaded"/.test(read()));
    assert.match(read(), new RegExp(`"log_file":"${path}"`));
    assert.equal(await server.stop(), 0);
    assert.match(read(), /"msg":"stopped"/);
    assert.doesNotMatch(readFileSync(`${path}.1`, 'utf8'), /reloaded|stopped/);
  } finally {
    await server.dispose();
    removeFolder(folder);
  }
});
