// Every micro benchmark runs in every test run, with tiny parameters, so that it stays runnable. No figure is asserted.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const MICRO = fileURLToPath(new URL('../../bench/micro/', import.meta.url));
const run = promisify(execFile);

for (const file of readdirSync(MICRO).filter((name) => /\.[jt]s$/.test(name) && !name.endsWith('.d.ts'))) {
  test(`${file} runs and prints figures`, async () => {
    const { stdout } = await run(process.execPath, [`${MICRO}${file}`, '--smoke']);
    assert.match(stdout, /\d/);
  });
}
