// A way of fixed width behind an Egress, in simulated time: what is under way fits the way, and urgent frames hardly
// wait.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Egress } from '../../src/peer/egress.ts';
import { PRIORITY_CONTROL } from '../../src/peer/send-queue.ts';
import { FRAME_KIND, frameKind, sealFrame } from '../../src/peer/codec/frame.ts';

const RUN_MS = 20_000;
const HEARTBEAT_MS = 200;
const HEARTBEAT_BYTES = 64;
const ENTRY_BYTES = 4096;

/**
 * Longest waits of heartbeats in the second half of the run, and bytes that arrived then, with entries always waiting.
 */
function run(bytesPerMs: number, delayMs: number): { readonly waitMs: number; readonly carriedBytes: number } {
  const egress = new Egress(64 * 1024 * 1024);
  const saidMs = new Map<Uint8Array, number>();
  const pongs: number[] = [];
  let freeAtMs = 0;
  let waitMs = 0;
  let carriedBytes = 0;
  for (let nowMs = 0; nowMs < RUN_MS; nowMs++) {
    while (pongs[0] !== undefined && pongs[0] <= nowMs) {
      pongs.shift();
      egress.onPong(nowMs);
    }
    if (nowMs % 1000 === 0) egress.tick(nowMs);
    if (nowMs % HEARTBEAT_MS === 0) {
      const heartbeat = sealFrame(new Uint8Array(HEARTBEAT_BYTES), FRAME_KIND.raft);
      saidMs.set(heartbeat, nowMs);
      egress.push(heartbeat, PRIORITY_CONTROL);
    }
    while (egress.queue.bytes < 8 * 1024 * 1024)
      egress.push(sealFrame(new Uint8Array(ENTRY_BYTES), FRAME_KIND.forward));
    for (let frame = egress.next(nowMs); frame !== undefined; frame = egress.next(nowMs)) {
      freeAtMs = Math.max(freeAtMs, nowMs) + frame.length / bytesPerMs;
      const arrivesMs = freeAtMs + delayMs;
      if (frameKind(frame) === FRAME_KIND.ping) pongs.push(arrivesMs + delayMs);
      if (nowMs < RUN_MS / 2) continue;
      if (arrivesMs < RUN_MS) carriedBytes += frame.length;
      const since = saidMs.get(frame);
      if (since !== undefined) waitMs = Math.max(waitMs, arrivesMs - delayMs - since);
    }
  }
  return { waitMs, carriedBytes };
}

test('heartbeats pass full ways of any width within a moment, and the width is used', () => {
  for (const bytesPerMs of [50, 1000, 20_000]) {
    for (const delayMs of [0, 1, 40]) {
      const { waitMs, carriedBytes } = run(bytesPerMs, delayMs);
      const what = `${bytesPerMs} bytes/ms, ${delayMs} ms: ${waitMs} ms, ${carriedBytes} bytes`;
      assert(waitMs < 700, what);
      assert(carriedBytes > 0.8 * bytesPerMs * (RUN_MS / 2), what);
    }
  }
});

test('a way that turns thin holds what was under way once, and then no more', () => {
  const egress = new Egress(64 * 1024 * 1024);
  for (let i = 0; i < 1000; i++) egress.push(sealFrame(new Uint8Array(ENTRY_BYTES), FRAME_KIND.forward));
  let left = 0;
  for (let frame = egress.next(0); frame !== undefined; frame = egress.next(0)) left += frame.length;
  assert(left <= 256 * 1024 + ENTRY_BYTES);
  egress.tick(1000);
  assert.equal(egress.windowBytes, 16 * 1024);
  // Pongs that come late let out only as much as came through.
  egress.onPong(2000);
  assert.equal(egress.next(2000), undefined);
});

test('where a way is thin, a large frame goes in smaller pieces', () => {
  const egress = new Egress(64 * 1024 * 1024);
  egress.takesPieces = true;
  egress.push(sealFrame(new Uint8Array(1024 * 1024), FRAME_KIND.forward));
  const most = (nowMs: number): number => {
    let bytes = 0;
    for (let frame = egress.next(nowMs); frame !== undefined; frame = egress.next(nowMs)) {
      bytes = Math.max(bytes, frame.length);
    }
    return bytes;
  };
  assert(most(0) > 60 * 1024);
  egress.tick(1000);
  for (let pong = 0; pong < 8; pong++) egress.onPong(2000);
  const bytes = most(2000);
  assert(bytes > 0 && bytes <= egress.windowBytes / 3, `pieces of ${bytes}, a window of ${egress.windowBytes}`);
});
