import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlightWindow } from '../../src/base/flight-window.ts';

const TARGET = 5;
const PIECE_BYTES = 4000;
const TICKS = 400;

/** Bytes that arrive per tick, and the most that was under way, in the second half, with pieces always waiting. */
function run(bytesPerTick: number, latency: number): { readonly carried: number; readonly most: number } {
  const window = new FlightWindow({
    minBytes: 4096,
    startBytes: 65_536,
    maxBytes: 16_777_216,
    target: TARGET,
    smallBytes: 16_384,
  });
  const due: number[] = [];
  let freeAt = 0;
  let carried = 0;
  let most = 0;
  for (let now = 0; now < TICKS; now++) {
    window.check(now);
    for (let at = due[0]; at !== undefined && at <= now; at = due[0]) {
      due.shift();
      window.arrived(now);
      if (now >= TICKS / 2) carried += PIECE_BYTES;
    }
    while (window.room > 0) {
      freeAt = Math.max(freeAt, now) + PIECE_BYTES / bytesPerTick;
      due.push(freeAt + latency);
      window.left(PIECE_BYTES, now);
    }
    if (now >= TICKS / 2) most = Math.max(most, window.bytes);
  }
  return { carried: carried / (TICKS / 2), most };
}

test('what is under way fits a way of any width', () => {
  for (const bytesPerTick of [2000, 5000, 50_000]) {
    const { carried, most } = run(bytesPerTick, 0.1);
    const what = `${bytesPerTick} bytes per tick: ${carried} arrive, ${most} under way`;
    assert(carried > 0.8 * bytesPerTick, what);
    assert(most <= 3 * TARGET * bytesPerTick, what);
  }
});

test('a receiver with latency but no queue gets as much as any other', () => {
  for (const latency of [0, 3, 6, 9]) {
    const { carried } = run(1_000_000, latency);
    assert(carried > 300_000, `latency of ${latency} ticks: ${carried} bytes per tick`);
  }
});

test('nothing arrives: the window is the least, and one piece may always leave', () => {
  const window = new FlightWindow({
    minBytes: 100,
    startBytes: 1000,
    maxBytes: 10_000,
    target: TARGET,
    smallBytes: 16_384,
  });
  window.left(1000, 0);
  assert.equal(window.room, 0);
  window.check(TARGET + 1);
  assert.equal(window.limit, 100);
  window.clear();
  assert.equal(window.room, 100);
  assert.equal(window.pieces, 0);
});
