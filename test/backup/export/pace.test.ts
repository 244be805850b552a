// Rate of exports with and without clients.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXPORT_BUSY_BYTES_PER_SECOND } from '../../../src/base/limits.ts';
import { ExportPace } from '../../../src/backup/export/pace.ts';

const PIECE_BYTES = 256 * 1024;
const PIECE_MS = (PIECE_BYTES * 1000) / EXPORT_BUSY_BYTES_PER_SECOND;

/**
 * Runs `seconds` of pieces that take no time to make, on a node with this many requests per second; returns how many
 * were sent.
 */
function piecesIn(seconds: number, requestsPerSecond: number): number {
  let clockMs = 1000;
  const pace = new ExportPace(() => Math.floor((clockMs * requestsPerSecond) / 1000), { monotonicMs: () => clockMs });
  let pieces = 0;
  for (; clockMs < 1000 + seconds * 1000; pieces++) clockMs += Math.max(1, pace.delayMs(PIECE_BYTES));
  return pieces;
}

test('an idle node exports as fast as pieces are made', () => {
  assert.equal(piecesIn(10, 0), 10_000);
  assert.equal(piecesIn(10, 10), 10_000);
});

test('with clients, the exports of a node stay within the bound', () => {
  const pieces = piecesIn(10, 2000);
  const most = 10_000 / PIECE_MS;
  assert.ok(pieces >= 0.9 * most && pieces <= most + 101, `${pieces} pieces, at most ${most} and the first look's`);
});

test('pieces of several exports wait one behind the other', () => {
  let clockMs = 0;
  const pace = new ExportPace(() => clockMs * 10, { monotonicMs: () => clockMs });
  clockMs = 200;
  assert.equal(pace.delayMs(PIECE_BYTES), PIECE_MS);
  assert.equal(pace.delayMs(PIECE_BYTES), 2 * PIECE_MS);
  clockMs += 10 * PIECE_MS;
  assert.equal(pace.delayMs(PIECE_BYTES), PIECE_MS);
});
