// The producer's state by seeded faults: what was acknowledged is there once, in order, at its offset, and where it expected
// to be. And case by case.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OffsetConflict } from '../../src/client/error.ts';
import { ProducerQueue, type QueuedAppend } from '../../src/client/producer.ts';
import { createRandom } from '../support/random.ts';
import { BAD, FOREIGN, type Outcome, World, isSettled, refusal } from './producer-world.ts';

const SEEDS = 300;
const STEPS = 400;

function run(seed: number, remembers = true): World {
  const world = new World(createRandom(seed));
  world.stream.remembers = remembers;
  for (let step = 0; step < STEPS; step++) world.step();
  world.finish();
  return world;
}

/** Names the first fault; undefined: there is none. */
function fault({ outcomes, stream }: World): string | undefined {
  const done = outcomes.filter(({ offset }) => offset !== undefined);
  if (outcomes.some(({ offset, error }) => (offset === undefined) === (error === undefined))) return 'not settled once';
  const refused = outcomes.filter(({ error, expectedOffset }) => error !== undefined && expectedOffset === undefined);
  if (refused.some(({ text }) => !text.startsWith(BAD))) return 'a good append was refused';
  const wanted = done.map(({ text, offset }) => `${text}${offset}`);
  const there = stream.log.filter(({ text }) => !text.startsWith(FOREIGN)).map(({ text, end }) => `${text}${end}`);
  if (wanted.join('|') !== there.join('|')) return 'the log differs from what was acknowledged';
  for (const { text, offset = 0, expectedOffset, basis } of done) {
    if (expectedOffset !== undefined && expectedOffset !== offset - text.length)
      return `${text} is where it did not expect`;
    if (basis !== undefined && basis.error !== undefined) return `${text} is there without the one before`;
  }
  return undefined;
}

test('every acknowledged append is there once, in order, at its offset, whatever happens on the way', () => {
  const expecting = { done: 0, refused: 0 };
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = run(seed);
    for (const { expectedOffset, offset } of world.outcomes)
      if (expectedOffset !== undefined) expecting[offset === undefined ? 'refused' : 'done']++;
    assert.equal(fault(world), undefined, `seed ${seed}`);
    assert(world.outcomes.length > STEPS / 4, `seed ${seed} appends`);
  }
  assert(Math.min(expecting.done, expecting.refused) > 10 * SEEDS, JSON.stringify(expecting));
});

test('the check finds a node that takes repeats for new appends', () => {
  const found = Array.from({ length: 20 }, (_, seed) => fault(run(seed, false))).filter((one) => one !== undefined);
  assert(found.length > 15, `${found.length} of 20`);
});

function appendTo(producer: ProducerQueue, texts: readonly string[]): Outcome[] {
  return texts.map((text) => {
    const outcome: Outcome = { text };
    producer.push({
      bytes: Buffer.from(text),
      closes: text === '',
      done: (offset) => (outcome.offset = offset),
      failed: (error) => (outcome.error = error),
    });
    return outcome;
  });
}

const IGNORED = { done: () => undefined, failed: () => undefined };
const BOUNDS = { batches: Number.POSITIVE_INFINITY, bytes: 200 * 1024 };

test('a refusal about the stream ends all that waits, and later appends begin a new epoch', () => {
  const producer = new ProducerQueue(undefined);
  const first = appendTo(producer, ['a', 'b']);
  const sent = producer.next(BOUNDS);
  const behind = appendTo(producer, ['c', '', 'd']);
  const next = producer.next(BOUNDS);
  assert(sent !== undefined && next !== undefined);
  assert.deepEqual([sent.seq, next.seq, next.appends.length], [0, 1, 1]);
  producer.refused(sent, refusal('STREAM_NOT_FOUND'));
  producer.refused(next, refusal('PRODUCER_SEQ_CONFLICT'));
  for (const { error } of [...first, ...behind]) assert.equal(error?.code, 'STREAM_NOT_FOUND');
  assert(producer.isIdle);
  appendTo(producer, ['e']);
  producer.resume();
  const later = producer.next(BOUNDS);
  assert.deepEqual([later?.epoch, later?.seq], [1, 0]);
});

test('a batch that a node took up before the one ahead of it goes again, and a gap that stays is final', () => {
  const producer = new ProducerQueue(undefined);
  const [first] = appendTo(producer, ['a', '']);
  const [ahead, batch] = [producer.next(BOUNDS), producer.next(BOUNDS)];
  assert(ahead !== undefined && batch !== undefined);
  producer.acknowledged(ahead, 1);
  producer.refused(batch, refusal('PRODUCER_SEQ_CONFLICT'));
  assert.equal(first?.offset, 1);
  assert(!producer.isIdle);
  producer.resume();
  assert.equal(producer.next(BOUNDS), batch);
  producer.refused(batch, refusal('PRODUCER_SEQ_CONFLICT'));
  assert(producer.isIdle);
});

test('a producer that another one fenced takes nothing more', () => {
  const producer = new ProducerQueue(undefined);
  const [before] = appendTo(producer, ['a']);
  const sent = producer.next(BOUNDS);
  assert(sent !== undefined);
  producer.refused(sent, refusal('PRODUCER_EPOCH_STALE'));
  const [after] = appendTo(producer, ['b']);
  assert.deepEqual([before?.error?.code, after?.error?.code], ['PRODUCER_EPOCH_STALE', 'PRODUCER_EPOCH_STALE']);
});

/** Appends the text where it expects an offset, or where it does not. */
function expectingTo(producer: ProducerQueue): (text: string, expectedOffset?: number) => Outcome & QueuedAppend {
  return (text, expectedOffset) => {
    const append: Outcome & QueuedAppend = {
      ...{ text, bytes: Buffer.from(text), closes: false, expectedOffset, seq: producer.reserve() },
      done: (offset) => (append.offset = offset),
      failed: (error) => (append.error = error),
    };
    producer.push(append);
    return append;
  };
}

test('an append that is taken back fails those behind it that expect its end, and no others', () => {
  const producer = new ProducerQueue(undefined);
  const push = expectingTo(producer);
  const before = push('zz', 12);
  const aborted = push('aa', 10);
  const behind = [push('bb', 12), push('cc', 14)];
  const others = [push('dd'), push('ee', 5)];
  assert(producer.cancel(aborted));
  for (const { error } of behind) {
    assert(error instanceof OffsetConflict);
    assert.deepEqual([error.code, error.nextOffset], ['EXPECTED_OFFSET_CONFLICT', 10]);
  }
  assert(![before, ...others].some(isSettled));
  // Those of a stable producer are told by the node that one is missing; where a JSON stream ends is not known.
  const [stable, json] = [new ProducerQueue({ id: 'p' }), new ProducerQueue(undefined)];
  json.hasByteOffsets = false;
  for (const queue of [stable, json]) {
    const [first, next] = [expectingTo(queue)('aa', 10), expectingTo(queue)('bb', 12)];
    assert(queue.cancel(first));
    assert(!isSettled(next));
  }
});

test('a stable producer ends with a conflict, which only the append has that conflicted', () => {
  const producer = new ProducerQueue({ id: 'p' });
  const push = expectingTo(producer);
  const [before, conflicting, sent] = [push('aa', 0), push('bb', 1), push('cc', 3)];
  const [first, second] = [producer.next(BOUNDS), producer.next(BOUNDS), producer.next(BOUNDS)];
  const waiting = push('dd');
  assert(first !== undefined && second !== undefined);
  producer.refused(second, refusal('EXPECTED_OFFSET_CONFLICT'));
  assert.equal(conflicting.error?.code, 'EXPECTED_OFFSET_CONFLICT');
  for (const { error } of [sent, waiting, push('ee'), push('ff', 2)]) assert.equal(error?.code, 'PRODUCER_ENDED');
  producer.acknowledged(first, 2);
  assert.equal(before.offset, 2);
  assert(producer.isIdle);
});

test('an append that is lost behind a refused body is forgotten', () => {
  const producer = new ProducerQueue(undefined);
  const push = expectingTo(producer);
  const [bad, good] = [push('aa', 10), push('bb', 12)];
  const whole = producer.next(BOUNDS);
  assert.equal(whole?.appends.length, 2);
  producer.refused(whole, refusal('INVALID_JSON'));
  producer.resume();
  const alone = producer.next(BOUNDS);
  assert.deepEqual(alone?.appends, [bad]);
  producer.refused(alone, refusal('INVALID_JSON'));
  assert.equal(good.error?.code, 'INVALID_JSON');
  // The queue would know it still, and send it without others.
  producer.resume();
  push('cc', 10);
  producer.push(good);
  assert.equal(producer.next(BOUNDS)?.appends.length, 2);
});

test('appends that expect the end of one another are one batch, and refused together, while others go on', () => {
  const producer = new ProducerQueue(undefined);
  const push = expectingTo(producer);
  const chain = [push('aa', 10), push('bb', 12)];
  const plain = push('cc');
  const behind = push('dd', 16);
  const other = push('ee', 5);
  const sent = [producer.next(BOUNDS), producer.next(BOUNDS), producer.next(BOUNDS), producer.next(BOUNDS)];
  assert.deepEqual(
    sent.map((batch) => batch?.appends.length),
    [2, 1, 1, 1],
  );
  const [first] = sent;
  assert(first !== undefined);
  producer.refused(first, refusal('EXPECTED_OFFSET_CONFLICT'));
  for (const { error } of [...chain, behind]) assert.equal(error?.code, 'EXPECTED_OFFSET_CONFLICT');
  for (const batch of sent.slice(1)) if (batch !== undefined) producer.refused(batch, refusal('PRODUCER_SEQ_CONFLICT'));
  assert(!isSettled(plain) && !isSettled(other));
  producer.resume();
  const again = [producer.next(BOUNDS), producer.next(BOUNDS)];
  assert.deepEqual(
    again.map((batch) => [batch?.epoch, batch?.seq, batch?.appends[0]?.expectedOffset]),
    [
      [1, 0, undefined],
      [1, 1, 5],
    ],
  );
  // How long the records of a JSON stream become is not known, so each goes alone.
  const json = new ProducerQueue(undefined);
  json.hasByteOffsets = false;
  for (const expectedOffset of [0, 1])
    json.push({ bytes: Buffer.from('1'), closes: false, expectedOffset, ...IGNORED });
  assert.equal(json.next(BOUNDS)?.appends.length, 1);
});

test('five batches are under way at most, a large one alone, and an append that is not sent can be taken back', () => {
  const producer = new ProducerQueue(undefined);
  const kib = (n: number): string => 'x'.repeat(n * 1024);
  appendTo(
    producer,
    Array.from({ length: 7 }, () => kib(30)),
  );
  const sent = Array.from({ length: 6 }, () => producer.next(BOUNDS));
  assert.equal(sent.filter((batch) => batch !== undefined).length, 5);
  assert.equal(producer.out, 5);
  const large = new ProducerQueue(undefined);
  appendTo(large, ['a', kib(300), 'b']);
  const [small, ...none] = [large.next(BOUNDS), large.next(BOUNDS)];
  assert(small !== undefined);
  assert.deepEqual(none, [undefined]);
  large.acknowledged(small, 1);
  const alone = large.next(BOUNDS);
  assert.equal(alone?.appends.length, 1);
  assert.equal(large.next(BOUNDS), undefined);
  const append = { bytes: Buffer.from('c'), closes: false, ...IGNORED };
  large.push(append);
  assert(large.cancel(append));
  assert(!large.cancel(append));
});
