// Acknowledged means on disk by name: a node whose files are removed, moved or replaced under it stops with a sentence.
import assert from 'node:assert/strict';
import { cpSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestServer, removeFolder, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const TEXT = { 'content-type': 'text/plain' };

const LOSSES: readonly (readonly [string, (dataDir: string) => void, RegExp])[] = [
  // One file after the other, and the node may look in between.
  ['the data directory is removed', (dir) => rmSync(dir, { recursive: true }), /(data\.mdb|segment-1) was removed/],
  [
    'a copy takes its place',
    (dir) => {
      cpSync(dir, `${dir}-copy`, { recursive: true });
      renameSync(dir, `${dir}-before`);
      renameSync(`${dir}-copy`, dir);
    },
    /data\.mdb was removed, replaced .*\(another file has its name\)/,
  ],
  ['the log is removed', (dir) => rmSync(join(dir, 'shard-0/log'), { recursive: true }), /segment-1 was removed/],
];

for (const [what, lose, sentence] of LOSSES) {
  test(`${what} while the node runs: it stops with a sentence`, async (t) => {
    const folder = temporaryFolder('removed');
    const dataDir = join(folder, 'data');
    const server = new TestServer({ process: true, cores: 1, groups: 1, dataDir });
    t.after(async () => {
      await server.dispose();
      removeFolder(folder);
    });
    await server.start();
    assert.equal((await server.client.request('PUT', '/a/b', TEXT, 'x')).status, 201);
    lose(dataDir);
    assert.equal(await within(server.exited, PATIENCE_MS, 'the end of a node without its files'), 1);
    assert.match(await server.logged(sentence), /the node stops/);
  });
}
