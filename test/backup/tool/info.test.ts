// backup-create warns when the cluster would soon delete what the backup refers to.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { coldNote } from '../../../src/backup/tool/info.ts';
import { type CtlResult, ctl, scratchFile } from '../../support/ctl.ts';
import { REPO_ROOT } from '../../support/paths.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;
/** The document of one group, with 19 objects. */
const DOCUMENT = readFileSync(join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1', 'group-0000.snapshot'));

test('what goes soon, and by which setting', () => {
  const removed = 'those of streams that are deleted or trimmed 1m later (storage.cold.gc_grace)';
  const merged = 'those of chunks that are merged 5m later (storage.cold.compaction_gc_grace)';
  const note = (objects: number, removedMs?: number, mergedMs?: number): string =>
    coldNote(objects, { removedMs, mergedMs }) ?? '';
  assert.equal(note(0, MINUTE_MS, MINUTE_MS), '');
  assert.equal(note(7), '');
  assert.equal(note(7, DAY_MS, 7 * DAY_MS), '');
  assert(
    note(1, MINUTE_MS, DAY_MS).includes(`refers to 1 object in the cold store, and the cluster deletes ${removed};`),
  );
  assert(
    note(2, DAY_MS, 5 * MINUTE_MS).includes(
      `refers to 2 objects in the cold store, and the cluster deletes ${merged};`,
    ),
  );
  assert(note(2, MINUTE_MS, 5 * MINUTE_MS).includes(`deletes ${removed}, and ${merged}; this backup`));
});

test('backup-create says it in one line, on stderr, and the backup is made', async () => {
  const folder = temporaryFolder('cold-note');
  let graces = {};
  const node = createServer((request, response) => {
    if (request.url?.endsWith('/info') === true)
      return void response.end(JSON.stringify({ format_version: 1, raft_group_count: 1, ...graces }));
    return void response.writeHead(200, { 'x-svc-backup-format': '1', 'x-svc-backup-commit-index': '1' }).end(DOCUMENT);
  });
  node.listen(0, '127.0.0.1');
  await once(node, 'listening');
  try {
    const { port } = node.address() as AddressInfo;
    const config = scratchFile('c.json', JSON.stringify({ nodes: [{ id: 1, host: '127.0.0.1', admin_port: port }] }));
    const create = (name: string): Promise<CtlResult> =>
      ctl(['backup-create', '--json', '--config', config, '--location', join(folder, name)]);
    graces = { cold_gc_grace_ms: MINUTE_MS, cold_compaction_gc_grace_ms: 7 * DAY_MS };
    const short = await create('short');
    assert.equal(short.code, 0, short.stderr);
    const lines = short.stderr.split('\n').filter((line) => line.startsWith('warning'));
    assert.equal(lines.length, 1, short.stderr);
    assert.match(
      lines[0] as string,
      /^warning: the backup refers to 19 objects .* 1m later \(storage\.cold\.gc_grace\); /,
    );
    assert.equal((JSON.parse(short.stdout) as Record<string, unknown>)['groups'], 1);
    graces = { cold_gc_grace_ms: 30 * DAY_MS };
    const long = await create('long');
    assert.equal(long.code, 0, long.stderr);
    assert.doesNotMatch(long.stderr, /warning/);
  } finally {
    node.closeAllConnections();
    node.close();
    removeFolder(folder);
  }
});
