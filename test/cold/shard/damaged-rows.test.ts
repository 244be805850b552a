// Rows that the disk changed keep their stream on the nodes, and no other stream of its group.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERRORS } from '../../../src/base/errors.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';
import { CHECKPOINT_MS } from '../../../src/shard/checkpoints.ts';
import { TAG } from '../../../src/stream/core/keys.ts';
import { code, find } from '../../shard/harness.ts';
import { ColdHarness } from './harness.ts';

const HOT_BYTES_MAX = 20_000;
/** Several rows. */
const ROTTEN = 'r'.repeat(7000);
const SOUND = 's'.repeat(2000);
/** Longer than a stream with a changed row is left alone. */
const AGAIN_MS = 65_000;

/** `rotten`, the first incarnation, which has waited longest, and `sound`: in the store, and nowhere else. */
function started(): ColdHarness {
  const harness = new ColdHarness({ hotBytesMax: HOT_BYTES_MAX, flushBytesMax: 16_384 });
  for (const [stream, body] of [
    ['rotten', ROTTEN],
    ['sound', SOUND],
  ] as const) {
    harness.create(0, stream, { body });
    harness.turn();
  }
  // Uploads are not answered meanwhile.
  for (let i = 0; i < 4; i++) harness.turn(CHECKPOINT_MS);
  harness.restartWith('00000000000000bb');
  return harness;
}

const isOfRotten = (key: Uint8Array, tag: number): boolean => key[2] === tag && key[8] === 1;
const positionIn = (key: Uint8Array): number => Number(Buffer.from(key).readBigUInt64BE(9));
const isHead = (key: Uint8Array): boolean => key[2] === TAG.head && Buffer.from(key).toString().endsWith('rotten');

function hotBytesOf(harness: ColdHarness, stream: string): number {
  const key = new Uint8Array(Buffer.from(`bucket\0${stream}`));
  const head = harness.groupOf().state.find(key, 0, key.length);
  assert(head !== undefined);
  return head.tail - head.hotStart;
}

for (const [what, isDamaged] of [
  ['the first row', (key: Uint8Array) => isOfRotten(key, TAG.data)],
  ['a row behind others', (key: Uint8Array) => isOfRotten(key, TAG.data) && positionIn(key) > 0],
  ['the head', isHead],
] as const) {
  test(`${what} of the stream that waits longest was changed: the others move, and are written to on and on`, () => {
    const harness = started();
    harness.storage.isDamaged = isDamaged;
    let sound = SOUND;
    for (let i = 0; i < 12; i++) {
      const slot = harness.append(0, 'sound', SOUND);
      assert.equal(code(find(harness.turn(), slot)), 'OK');
      sound += SOUND;
      harness.run(1500);
    }
    assert.equal(hotBytesOf(harness, 'sound'), 0);
    assert.equal(harness.groupOf().state.hotBytes, ROTTEN.length);
    assert.equal(harness.whole('sound').toString(), sound);
    // As it was written, from another node.
    harness.storage.isDamaged = () => false;
    harness.run(AGAIN_MS);
    assert.equal(harness.groupOf().state.hotBytes, 0);
    assert.equal(harness.whole('rotten').toString(), ROTTEN);
    assert.equal(harness.whole('sound').toString(), sound);
  });
}

test('a stream with a changed row that is written to on and on fills the bound for itself, and for no other', () => {
  const harness = started();
  harness.storage.isDamaged = (key) => isOfRotten(key, TAG.data) && positionIn(key) === 0;
  const wanted = { rotten: ROTTEN, sound: SOUND };
  const write = (stream: 'rotten' | 'sound'): string => {
    const slot = harness.append(0, stream, SOUND);
    const answer = code(find(harness.turn(), slot));
    if (answer === 'OK') wanted[stream] += SOUND;
    harness.run(1500);
    return answer;
  };
  const answers: string[] = [];
  for (let i = 0; i < 12; i++) {
    answers.push(write('rotten'));
    assert.equal(write('sound'), 'OK');
  }
  assert.deepEqual([...new Set(answers)], ['OK', 'BACKPRESSURE']);
  assert.equal(hotBytesOf(harness, 'rotten'), wanted.rotten.length);
  assert(wanted.rotten.length > HOT_BYTES_MAX - SOUND.length && wanted.rotten.length <= HOT_BYTES_MAX);
  assert.equal(hotBytesOf(harness, 'sound'), 0);
  harness.storage.isDamaged = () => false;
  harness.run(AGAIN_MS);
  assert.equal(harness.groupOf().state.hotBytes, 0);
  assert.equal(write('rotten'), 'OK');
  for (const stream of ['rotten', 'sound'] as const) assert.equal(harness.whole(stream).toString(), wanted[stream]);
});

test('an operator who moves a stream with a changed row is told, and the others move', () => {
  const harness = started();
  harness.storage.isDamaged = (key) => isOfRotten(key, TAG.data);
  const asked = harness.flushCall(0, 'rotten');
  const replies = harness.turn();
  for (let i = 0; i < 10; i++) {
    harness.port.answer();
    replies.push(...harness.turn(25));
  }
  const { outcome, body } = QUERIES.flushStream.result.read(find(replies, asked));
  assert.deepEqual([outcome, body], ['retry', `${ERRORS.ROW_DAMAGED.text}\n`]);
  harness.run(3000);
  assert.equal(hotBytesOf(harness, 'sound'), 0);
});
