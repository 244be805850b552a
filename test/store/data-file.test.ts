// A data file that LMDB would crash on is refused with a sentence.
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { checkDataFile } from '../../src/store/data-file.ts';
import { Environment, LmdbTx } from '../../src/store/environment.ts';

test('a data file that is cut short or written over is refused, others are not', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'millrace-data-file-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const environment = new Environment(directory);
  const tx = new LmdbTx(environment.state);
  for (let turn = 0; turn < 5; turn++) {
    environment.commit(() => {
      for (let i = 0; i < 200; i++) tx.put(Uint8Array.of(turn, i), new Uint8Array(3000));
    });
    checkDataFile(join(directory, 'data.mdb'));
  }
  await environment.close();

  const file = join(directory, 'data.mdb');
  const copy = join(directory, 'copy.mdb');
  checkDataFile(file);
  checkDataFile(join(directory, 'missing'));
  for (const size of [100, 4096, 8192, 40_000]) {
    copyFileSync(file, copy);
    truncateSync(copy, size);
    assert.throws(() => checkDataFile(copy), /copy\.mdb is damaged \(it was cut short/, `${size} bytes`);
  }
  truncateSync(copy, 0);
  checkDataFile(copy);
  writeFileSync(copy, new Uint8Array(40_000).fill(0x5a));
  assert.throws(() => checkDataFile(copy), /no LMDB file/);
});

test('a data file that another thread commits to is not taken for one that is cut short', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'millrace-data-file-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const environment = new Environment(directory);
  t.after(async () => await environment.close());
  const tx = new LmdbTx(environment.state);
  environment.commit(() => tx.put(Uint8Array.of(0), new Uint8Array(1)));
  const checker = new Worker(new URL('./data-file.worker.js', import.meta.url), {
    workerData: join(directory, 'data.mdb'),
  });
  let error: unknown;
  checker.on('error', (thrown) => (error = thrown));
  await once(checker, 'message');
  // The wrong order of its steps is seen after some 20 of these.
  for (let i = 0; i < 250 && error === undefined; i++) {
    environment.commit(() => {
      for (let row = 0; row < 20; row++) tx.put(Uint8Array.of(i, row), new Uint8Array(3000));
    });
    await turn();
  }
  await checker.terminate();
  assert.equal(error, undefined);
});
