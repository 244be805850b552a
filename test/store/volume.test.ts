// Which errors of the store mean that its volume is full.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFull } from '../../src/store/volume.ts';

test('a volume is full by what the system says, and not by the name of the folder', () => {
  const directory = '/srv/quota/no space left/shard-0';
  const named = new Error(`${directory}/data.mdb: its checksum does not match`);
  assert(!isFull(directory, named));
  for (const said of ['No space left on device', 'Disk quota exceeded'])
    assert(isFull(directory, new Error(`${directory}/data.mdb: ${said}`)));
  for (const code of ['ENOSPC', 'EDQUOT']) assert(isFull(directory, Object.assign(new Error('write'), { code })));
});
