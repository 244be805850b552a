// The shard's part in an export: it lets one begin, holds the collector back, and ends it when writes need its pages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCode } from '../../../src/base/errors.ts';
import type { Group } from '../../../src/group/group.ts';
import { Exports } from '../../../src/backup/shard/exports.ts';
import type { ShardStorage } from '../../../src/shard/ports.ts';
import type { Reply } from '../../../src/protocol/reply.ts';
import { requestFor } from '../../../src/protocol/request.ts';
import { queryOf } from '../../support/asked-query.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';

interface World {
  readonly storage: { roomToGrow: boolean };
  readonly group: { exports: number };
  ask(
    step: 'open' | 'hold' | 'close',
    value?: number,
    clockMs?: number,
  ): { readonly code: ErrorCode; readonly id: number };
  readonly exports: Exports;
}

function world(): World {
  const storage = { roomToGrow: true };
  const state = { appliedCommands: 7, cold: { origin: '0'.repeat(16) }, imported: undefined };
  const group = { exports: 0, state };
  let last = { code: 'INTERNAL' as ErrorCode, id: 0 };
  const exports = new Exports(storage as unknown as ShardStorage, {
    checkpoint: () => 'OK',
    deliver: (reply: Reply) => {
      last = {
        code: errorCode(reply.code),
        id: reply.body === undefined ? 0 : QUERIES.exportGroup.result.read(reply).id,
      };
    },
  });
  return {
    storage,
    group,
    exports,
    ask: (step, id = 0, clockMs = 0) => {
      const request = requestFor(QUERIES.exportGroup, 0, { step, id });
      exports.handle(1, group as unknown as Group, queryOf(request), clockMs);
      return last;
    },
  };
}

test('an export is ended when the volume runs short of room, and not when it was short before', () => {
  const { storage, group, ask } = world();
  const first = ask('open');
  assert.deepEqual([first.code, group.exports], ['OK', 1]);
  assert.equal(ask('hold', first.id).code, 'OK');
  storage.roomToGrow = false;
  const second = ask('open');
  assert.deepEqual([ask('hold', first.id).code, group.exports], ['DISK_FULL', 1]);
  assert.equal(ask('hold', first.id).code, 'INTERNAL');
  assert.equal(ask('hold', second.id).code, 'OK');
  ask('close', second.id);
  assert.equal(group.exports, 0);
});

test('two run at once, and one without keep-alive ends', () => {
  const { group, ask, exports } = world();
  const first = ask('open');
  ask('open');
  assert.equal(ask('open').code, 'EXPORTS_FULL');
  ask('hold', first.id, 50_000);
  exports.turn(70_000);
  assert.equal(group.exports, 1);
  exports.turn(120_000);
  assert.equal(group.exports, 0);
});
