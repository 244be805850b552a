// Parameters of commands that are not appends: what is written comes back, and what is no such thing is told apart.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromHex, toHex } from '../../src/base/hex.ts';
import { BATCH_FRAMES_MAX } from '../../src/base/limits.ts';
import { batchShape, frameEnd, joinFrames } from '../../src/protocol/append-batch.ts';
import { decodePurge, decodeQuota, encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import {
  PUBLISH_HEAD_BYTES,
  decodePublish,
  decodeRetention,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';

const position = {
  byRecord: true,
  value: 2 ** 53 - 1,
  checkedIncarnation: 7,
  checkedOffset: 8,
  checkedRecord: 9,
};

/** Every shorter form, and one byte more. */
function* mutilated(bytes: Uint8Array): Generator<Uint8Array> {
  for (let size = 0; size < bytes.length; size++) yield bytes.subarray(0, size);
  yield Uint8Array.from([...bytes, 0]);
}

test('purge and quota', () => {
  for (const after of ['', 'a', 'é\u{1F600}']) {
    assert.deepEqual(decodePurge(encodePurge(after)), new Uint8Array(Buffer.from(after)));
    for (const bad of mutilated(encodePurge(after))) assert.equal(decodePurge(bad), undefined);
  }
  const quota = { streamsMax: -1, retainedBytesMax: 2 ** 53 - 1 };
  assert.deepEqual(decodeQuota(encodeQuota(quota)), quota);
  for (const bad of mutilated(encodeQuota(quota))) assert.equal(decodeQuota(bad), undefined);
  assert.equal(decodeQuota(new Uint8Array(16).fill(0xff)), undefined, 'NaN is no bound');
});

test('retention and snapshots', () => {
  assert.deepEqual({ ...decodeRetention(encodeRetention(position)) }, { ...position, hasMatch: false });
  for (const bad of mutilated(encodeRetention(position))) assert.equal(decodeRetention(bad), undefined);
  for (const match of [undefined, new Uint8Array(32).fill(3)]) {
    const payload = new Uint8Array(PUBLISH_HEAD_BYTES + 3).fill(9);
    const digest = new Uint8Array(32).fill(2);
    writePublishHead(payload, { position, digest, match });
    assert.deepEqual(decodePublish(payload), { position, digest, match, bytes: new Uint8Array(3).fill(9) });
    assert.equal(decodePublish(payload.subarray(0, PUBLISH_HEAD_BYTES))?.bytes.length, 0);
    for (let size = 0; size < PUBLISH_HEAD_BYTES; size++) {
      assert.equal(decodePublish(payload.subarray(0, size)), undefined);
    }
  }
});

test('frames of a batch', () => {
  const frames = [new Uint8Array(0), new Uint8Array(70_000).fill(1), new Uint8Array([2])];
  const bytes = joinFrames(frames);
  assert.equal(batchShape(bytes), 'ok');
  const read: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at = frameEnd(bytes, at)) read.push(bytes.slice(at + 4, frameEnd(bytes, at)));
  assert.deepEqual(read, frames);
  assert.equal(batchShape(new Uint8Array(0)), 'empty');
  assert.equal(batchShape(Uint8Array.from([255, 255, 255, 255])), 'truncated');
  const small = joinFrames([new Uint8Array([1, 2])]);
  for (let size = 1; size < small.length; size++) assert.equal(batchShape(small.subarray(0, size)), 'truncated');
  const many = Array.from({ length: BATCH_FRAMES_MAX }, () => new Uint8Array(0));
  assert.equal(batchShape(joinFrames(many)), 'ok');
  assert.equal(batchShape(joinFrames([...many, new Uint8Array(0)])), 'too-many');
});

test('hexadecimal digits', () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  assert.equal(toHex(bytes), Buffer.from(bytes).toString('hex'));
  assert.deepEqual(fromHex(toHex(bytes).toUpperCase(), 256), bytes);
  for (const bad of ['', '0', '000', 'gg', '0x', ' 0', '+1']) assert.equal(fromHex(bad, 1), undefined, bad);
});
