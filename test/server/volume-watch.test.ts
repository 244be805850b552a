import assert from 'node:assert/strict';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Runtime } from '../../src/base/runtime.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { VolumeWatch } from '../../src/server/volume-watch.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

test('the room of a volume is known at the start, looked at again, and unknown when the folder is gone', async () => {
  const folder = temporaryFolder('volume');
  let again: (() => void) | undefined;
  const runtime: Runtime = {
    ...PROCESS_RUNTIME,
    setTimer: (_, run) => {
      again = run;
      return () => undefined;
    },
  };
  const watch = new VolumeWatch(runtime, folder);
  await watch.start();
  const { blocks, bsize } = statfsSync(folder);
  const { volume_bytes: bytes, volume_free_bytes: free } = watch.metrics();
  assert.equal(bytes, blocks * bsize);
  assert(free !== undefined && free > 0 && free < blocks * bsize);
  removeFolder(folder);
  assert(again !== undefined);
  again();
  await until('the folder is missed', () => watch.metrics().volume_bytes === undefined);
  const none = new VolumeWatch(runtime, join(folder, 'never'));
  await none.start();
  assert.deepEqual(none.metrics(), {});
});
