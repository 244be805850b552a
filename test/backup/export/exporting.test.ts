// Exports in their thread that cannot begin: nothing of them stays behind.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Exporting, type FromExports } from '../../../src/backup/export/exporting.ts';
import type { GroupRows } from '../../../src/backup/export/group-export.ts';
import { RowDamage } from '../../../src/base/row-damage.ts';

test('an export whose first row is damaged ends its read transaction, which would keep pages from being used again', () => {
  let closed = 0;
  const rows: GroupRows = {
    row: (tag) => {
      throw new RowDamage(Uint8Array.of(0, 1, tag), 'the test says so');
    },
    rows: () => [],
    lookAgain: () => undefined,
    close: () => closed++,
  };
  const posted: FromExports[] = [];
  const exporting = new Exporting({
    open: () => rows,
    post: (message) => posted.push(message),
    later: () => assert.fail('there is nothing to do'),
  });
  exporting.open(1, 0, { group: 1, groupCount: 8, commitIndex: 0, origin: '' });
  assert.match(posted.map((one) => ('failed' in one ? one.failed : 'not failed')).join(), /the test says so/);
  assert.equal(closed, 1);
});
