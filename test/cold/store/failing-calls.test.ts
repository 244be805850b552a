// Every call of the file system that a cold directory or a backup in a directory makes fails once and in each way: what
// was put or written is there, a failed sync is never repeated, and the error says of which object or directory it speaks.
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openLocation } from '../../../src/backup/format/location.ts';
import { DirStore, makeDirStore } from '../../../src/cold/store/dir-store.ts';
import { StoreError } from '../../../src/cold/store/store.ts';
import { Fault } from '../../../src/stream/backup/fault.ts';
import { type Failure, FailingCalls } from '../../support/failing-calls.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';

const { signal } = new AbortController();
const CALLS = ['open', 'rename', 'stat', 'mkdir', 'readdir', 'unlink'];
const OF_HANDLES = ['writeFile', 'write', 'read', 'sync', 'datasync'].map((name) => `handle.${name}`);
const FAILURES: readonly Failure[] = ['EIO', 'ENOSPC', 'EINTR', 'short'];
/** Others would hand a whole write, or none, to the system. */
const CAN_BE_SHORT: ReadonlySet<string> = new Set(['handle.write', 'handle.read']);
const KEY = 'folder/object';
const BODY = Uint8Array.from({ length: 5000 }, (_, i) => i);

/** Runs `trial` with each call failing, as often as there is one; it gets a name of its own. */
async function sweep(calls: FailingCalls, trial: (name: string) => Promise<void>): Promise<number> {
  let trials = 0;
  for (const call of [...CALLS, ...OF_HANDLES]) {
    for (const failure of FAILURES) {
      if (failure === 'short' && !CAN_BE_SHORT.has(call)) continue;
      for (let skipped = 0; ; skipped++) {
        calls.plan(call, skipped, failure);
        const name = `trial-${trials}`;
        try {
          await trial(name);
        } catch (error) {
          throw new Error(`${failure} of ${call} ${skipped}`, { cause: error });
        } finally {
          calls.end();
        }
        if (!calls.hasFailed) break;
        assert.deepEqual(calls.syncedAgain, [], `${failure} of ${call} ${skipped}: it is not synced again`);
        trials++;
      }
    }
  }
  return trials;
}

test('whatever call of a cold directory fails, what was put is there, and the error names the object', async (t) => {
  const folder = temporaryFolder('failing-cold');
  t.after(() => removeFolder(folder));
  await makeDirStore(folder, 'r');
  const calls = await FailingCalls.in(t);
  const trials = await sweep(calls, async (name) => {
    const store = new DirStore(folder, 'r');
    const key = `${name}/${KEY}`;
    try {
      await store.put(key, BODY, signal);
    } catch (error) {
      assert(error instanceof StoreError, String(error));
      assert(error.message.startsWith(key), error.message);
      return;
    }
    assert.deepEqual(new Uint8Array(readFileSync(join(folder, 'r', key))), BODY);
    const got = await store.get(key, 0, BODY.length).catch((error: unknown) => error);
    if (got instanceof Error) assert(got instanceof StoreError && got.message.startsWith(key), String(got));
    else assert.deepEqual(got, BODY);
  });
  assert(trials > 40, `${trials} trials`);
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
  const trials = await sweep(calls, async (name) => {
    try {
      await location.write(name, pieces());
    } catch (error) {
      assert(error instanceof Fault && error.message.startsWith(folder), String(error));
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
