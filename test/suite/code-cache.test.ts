import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { removeFolder, temporaryFolder } from '../support/server.ts';

/** Greets, and at its first connection has what the build waits for, and ends the connection without an answer. */
const NODE = `
const { createServer } = require('node:net');
const { writeFileSync } = require('node:fs');
const server = createServer((socket) => {
  socket.end();
  for (const name of ['main', 'shard']) writeFileSync(__dirname + '/' + name + '-1.cache', '');
});
server.listen(0, '127.0.0.1', () => {
  const url = 'http://127.0.0.1:' + server.address().port;
  process.stdout.write('clients ' + url + '\\n  admin ' + url + '\\n');
});`;

test('a node that stops before it answers does not fail the build of the code caches', () => {
  const root = temporaryFolder('code-cache');
  try {
    const bundles = join(root, 'dist/bundle');
    for (const folder of [bundles, join(root, 'scripts')]) mkdirSync(folder, { recursive: true });
    cpSync('scripts/code-cache.mjs', join(root, 'scripts/code-cache.mjs'));
    writeFileSync(join(root, 'scripts/write-code-cache.cjs'), '');
    writeFileSync(join(bundles, 'start-main.cjs'), NODE);
    writeFileSync(join(bundles, 'start-ctl.cjs'), "require('node:fs').writeFileSync(__dirname + '/ctl-1.cache', '')");
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/code-cache.mjs')], {
      encoding: 'utf8',
    });
    assert.deepEqual([status, stderr], [0, '']);
  } finally {
    removeFolder(root);
  }
});
