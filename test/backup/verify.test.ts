// Verifying a backup that is bad: it ends with the sentence of the first fault, whatever its other threads do then.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { openLocation } from '../../src/backup/format/location.ts';
import { type GroupEntry, objectName, writeManifest } from '../../src/backup/format/manifest.ts';
import { verifyGroup } from '../../src/backup/format/verify.ts';
import { verifyBackup } from '../../src/backup/tool/verify.ts';
import { Interrupted } from '../../src/nodes/failure.ts';
import { ProgressBar } from '../../src/operator/progress-bar.ts';
import { removeFolder, run, temporaryFolder } from '../support/server.ts';
import { CTL_ENTRY } from '../support/ctl.ts';
import { failingThreads } from '../support/failing-threads.ts';

const GROUPS = 64;
const FILE_BYTES = 256 * 1024;
/**
 * A thread that was ended inside native code took the process with it, in one of some hundred rounds on a busy machine.
 */
const ROUNDS = 6;
const NEVER = new AbortController().signal;

function entryOf(group: number): GroupEntry {
  return {
    raft_group_id: group,
    object: objectName(group),
    bytes: FILE_BYTES,
    blake3: '0'.repeat(64),
    group_commit_index: 1,
    buckets: 0,
    streams: 0,
  };
}

const context = (signal: AbortSignal): Parameters<typeof verifyBackup>[1] => {
  return { progress: new ProgressBar(process.stderr, {}), signal, env: process.env };
};

/** Files of the right size that no node wrote; the first one is missing. */
async function withBadBackup(body: (path: string) => Promise<void>): Promise<void> {
  const path = temporaryFolder('verify');
  try {
    const entries = Array.from({ length: GROUPS }, (_, group) => entryOf(group));
    for (const { object } of entries.slice(1)) writeFileSync(join(path, object), Buffer.alloc(FILE_BYTES));
    const location = await openLocation(path, { signal: NEVER, env: {} });
    await writeManifest(location, 0, entries, { cluster_id: null, restored_from: [] });
    await body(path);
  } finally {
    removeFolder(path);
  }
}

test('a fault ends all threads, and the process stays', async () => {
  await withBadBackup(async (path) => {
    const location = await openLocation(path, { signal: NEVER, env: {} });
    for (let round = 0; round < ROUNDS; round++) {
      await assert.rejects(verifyBackup(location, context(NEVER)), /group-\d{4}\.snapshot: /);
    }
  });
});

test('an interrupt ends all threads, and the process stays', async () => {
  await withBadBackup(async (path) => {
    const location = await openLocation(path, { signal: NEVER, env: {} });
    await assert.rejects(verifyBackup(location, context(AbortSignal.abort())), Interrupted);
  });
});

test('a group that is no longer wanted is not read to its end', async () => {
  await withBadBackup(async (path) => {
    const location = await openLocation(path, { signal: NEVER, env: {} });
    const options = { groupCount: GROUPS, isWanted: () => false };
    await assert.rejects(
      verifyGroup(location, entryOf(1), options),
      /group-0001\.snapshot: its verification was stopped/,
    );
  });
});

test('threads that do not start end the tool with a sentence', async () => {
  await withBadBackup(async (path) => {
    const { exited, output } = run(
      [process.execPath, CTL_ENTRY, 'backup-verify', '--location', path],
      failingThreads('true'),
    );
    assert.equal(await exited, 1, output());
    assert.match(output(), /the threads that verify do not start: Error: planted: this thread does not start/);
  });
});
