import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SendQueue } from '../../src/peer/send-queue.ts';
import { FRAME_FORWARD, FRAME_HEAD_BYTES, FRAME_RAFT, frameKind, sealFrame } from '../../src/wire/peer/frame.ts';
import type { FrameKind } from '../../src/wire/peer/frame.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

const random = createRandom(seedFromEnvironment());

function frame(kind: FrameKind, sizeBytes: number): Uint8Array {
  return sealFrame(new Uint8Array(Math.max(FRAME_HEAD_BYTES, sizeBytes)), kind);
}

test('the queue does what a plain array with the same rule does', () => {
  for (let round = 0; round < 50; round++) {
    const bytesMax = random.int(200, 2000);
    const queue = new SendQueue(bytesMax);
    let model: Uint8Array[] = [];
    let dropped = 0;
    const bytes = (): number => model.reduce((sum, one) => sum + one.length, 0);
    for (let step = 0; step < 5000; step++) {
      if (random.chance(0.55)) {
        const one = frame(
          random.chance(0.7) ? FRAME_RAFT : FRAME_FORWARD,
          random.int(12, random.chance(0.02) ? 3000 : 60),
        );
        while (model.length > 0 && bytes() + one.length > bytesMax) {
          const oldest = model.findIndex((other) => frameKind(other) === FRAME_RAFT);
          if (oldest < 0) break;
          model.splice(oldest, 1);
          dropped++;
        }
        const fits = model.length === 0 || bytes() + one.length <= bytesMax;
        if (fits) model.push(one);
        else dropped++;
        assert.equal(queue.push(one), fits, `SEED=${random.seed}`);
      } else {
        assert.equal(queue.shift(), model.shift());
      }
      assert.deepEqual([queue.count, queue.bytes, queue.droppedFrames], [model.length, bytes(), dropped]);
    }
    queue.clear();
    assert.deepEqual([queue.count, queue.bytes, queue.droppedFrames], [0, 0, dropped + model.length]);
    model = [];
  }
});
