import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlightWindow } from '../../src/base/flight-window.ts';
import { createRandom } from '../support/random.ts';

const TARGET = 5;
const PIECE_BYTES = 4000;
const TICKS = 400;

const newWindow = (): FlightWindow =>
  new FlightWindow({
    minBytes: 4096,
    startBytes: 65_536,
    maxBytes: 16_777_216,
    target: TARGET,
    smallBytes: 16_384,
    hasTrials: true,
  });

/** Bytes that arrive per tick, and the most that was under way, in the second half, with pieces always waiting. */
function run(bytesPerTick: number, latency: number): { readonly carried: number; readonly most: number } {
  const window = newWindow();
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

/**
 * In the first half the receiver rarely runs, and then takes all that has arrived; in the second half the path is thin.
 */
function starve(seed: number, thinBytesPerTick: number): { readonly carried: number; readonly most: number } {
  const random = createRandom(seed);
  const window = newWindow();
  let [looksAt, freeAt, carried, most] = [0, 0, 0, 0];
  const due: number[] = [];
  for (let now = 0; now < 20 * TICKS; now++) {
    const isThin = now >= 10 * TICKS;
    window.check(now);
    if (!isThin && now >= looksAt) {
      looksAt = now + random.int(2, 6 * TARGET);
      carried += window.bytes;
      while (window.pieces > 0) window.arrived(now);
    }
    for (let at = due[0]; at !== undefined && at <= now; at = due[0]) {
      due.shift();
      window.arrived(now);
    }
    while (window.room > 0) {
      window.left(PIECE_BYTES, now);
      if (isThin) due.push((freeAt = Math.max(freeAt, now) + PIECE_BYTES / thinBytesPerTick));
    }
    if (now === 10 * TICKS - 1) while (window.pieces > 0) window.arrived(now);
    if (now >= 19 * TICKS) most = Math.max(most, window.bytes);
  }
  return { carried: carried / (10 * TICKS), most };
}

test('a receiver without processor gets as much as it takes, and a path that turns thin then no more than fits', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const { carried, most } = starve(seed, 20_000);
    assert(carried > 50_000, `seed ${seed}: ${carried} bytes per tick`);
    assert(most <= 3 * TARGET * 20_000, `seed ${seed}: ${most} bytes under way`);
  }
});

test('nothing arrives: the window is the least, and one piece may always leave', () => {
  const window = new FlightWindow({
    minBytes: 100,
    startBytes: 1000,
    maxBytes: 10_000,
    target: TARGET,
    smallBytes: 16_384,
    hasTrials: true,
  });
  window.left(1000, 0);
  assert.equal(window.room, 0);
  window.check(TARGET + 1);
  assert.equal(window.limit, 100);
  window.clear();
  assert.equal(window.room, 100);
  assert.equal(window.pieces, 0);
});
