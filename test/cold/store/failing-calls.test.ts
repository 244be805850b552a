// Every call of the file system that a cold directory or a backup in a directory makes fails or is slow once, in each way:
// what was put or written is there, a failed sync is never repeated, and the error says of which object or directory it speaks.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLocation } from '../../../src/backup/format/location.ts';
import { ConfigError } from '../../../src/config/error.ts';
import { prepareDirectory } from '../../../src/cold/service/directory-mark.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';
import { DirStore, makeDirStore } from '../../../src/cold/store/dir-store.ts';
import { StoreError, readRange } from '../../../src/cold/store/store.ts';
import { Fault } from '../../../src/stream/backup/fault.ts';
import { ASYNCHRONOUS_CALLS, FailingCalls } from '../../support/failing-calls.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';

const { signal } = new AbortController();
const FAILURES = {
  EIO: ASYNCHRONOUS_CALLS,
  ENOSPC: ASYNCHRONOUS_CALLS,
  EINTR: ASYNCHRONOUS_CALLS,
  short: ASYNCHRONOUS_CALLS,
  slow: ASYNCHRONOUS_CALLS,
};
const KEY = 'folder/object';
const BODY = Uint8Array.from({ length: 5000 }, (_, i) => i);

test('whatever call of a cold directory fails, what was put is there, and the error names the object', async (t) => {
  const folder = temporaryFolder('failing-cold');
  t.after(() => removeFolder(folder));
  await makeDirStore(folder, 'r');
  const calls = await FailingCalls.in(t);
  const trials = await calls.sweep(FAILURES, async (name, _, failure) => {
    const store = new DirStore(folder, 'r');
    const key = `${name}/${KEY}`;
    try {
      await store.put(key, BODY);
    } catch (error) {
      assert(error instanceof StoreError && failure !== 'slow', String(error));
      assert(error.message.startsWith(key), error.message);
      return;
    }
    assert.deepEqual(new Uint8Array(readFileSync(join(folder, 'r', key))), BODY);
    const got = await readRange(store, key, 0, BODY.length).catch((error: unknown) => error);
    if (got instanceof Error)
      assert(failure !== 'slow' && got instanceof StoreError && got.message.startsWith(key), String(got));
    else assert.deepEqual(got, BODY);
  });
  assert(trials > 40, `${trials} trials`);
});

test('whatever call fails when a node notes its cold directory, the start ends in words and the next one has it', async (t) => {
  const calls = await FailingCalls.in(t);
  let refused = 0;
  const failures = { EIO: ASYNCHRONOUS_CALLS, ENOSPC: ['handle.writeFile'], slow: ASYNCHRONOUS_CALLS };
  await calls.sweep(failures, async (_, __, failure) => {
    const folder = temporaryFolder('failing-mark');
    const directory = temporaryFolder('failing-marked');
    const options = { dataDir: folder, directory, root: 'cold', timeoutMs: 60_000, runtime: PROCESS_RUNTIME };
    try {
      await prepareDirectory(options);
    } catch (error) {
      refused++;
      assert(
        failure !== 'slow' &&
          error instanceof ConfigError &&
          [folder, directory].some((path) => error.message.includes(path)),
        String(error),
      );
      calls.end();
      await prepareDirectory(options);
    }
    calls.end();
    assert(existsSync(join(folder, 'cold-store.json')));
    removeFolder(directory);
    await assert.rejects(prepareDirectory(options), /is not there, or is empty/);
    removeFolder(folder);
  });
  assert(refused > 8, `${refused} refused`);
});

test('whatever call of a backup in a directory fails, a file that was written is whole, and the error names the place', async (t) => {
  const folder = temporaryFolder('failing-backup');
  t.after(() => removeFolder(folder));
  const location = await openLocation(folder, { signal, env: {} });
  const calls = await FailingCalls.in(t);
  const pieces = async function* (): AsyncIterable<Uint8Array> {
    yield BODY;
    yield BODY;
  };
  const trials = await calls.sweep(FAILURES, async (name, _, failure) => {
    try {
      await location.write(name, pieces());
    } catch (error) {
      assert(failure !== 'slow' && error instanceof Fault && error.message.startsWith(folder), String(error));
      if (!existsSync(join(folder, name))) return;
    }
    assert.equal(readFileSync(join(folder, name)).length, 2 * BODY.length);
  });
  assert(trials > 15, `${trials} trials`);
});

test('a failed sync that is repeated is noticed', async (t) => {
  const folder = temporaryFolder('failing-twice');
  t.after(() => removeFolder(folder));
  const calls = await FailingCalls.in(t);
  calls.plan('handle.sync', 0, 'EIO');
  const path = join(folder, 'file');
  const file = await open(path, 'w');
  await file.sync().catch(() => file.sync());
  calls.end();
  await file.close();
  assert.deepEqual(calls.syncedAgain, [path]);
});
