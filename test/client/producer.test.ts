// The producer's state against a model of a node, by seeded faults: connections that end, copies that arrive late,
// refusals that pass and refusals that stay, and another writer. What was acknowledged is there once, in order, at its
// offset, and where it expected to be.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OffsetConflict, StreamError } from '../../src/client/error.ts';
import { ProducerQueue, type QueuedAppend, type SentBatch } from '../../src/client/producer.ts';
import { type Random, createRandom } from '../support/random.ts';

const SEEDS = 300;
const STEPS = 400;
const RESULTS_KEPT = 5;
const BAD = 'bad';
const FOREIGN = 'f';
/** Most appends have so many bytes, so that those of another writer end where one of ours would have. */
const USUAL_BYTES = 8;

function refusal(code: string, retry = false): StreamError {
  const fields = new Map(retry ? [['retry-after', '1']] : []);
  return new StreamError({ status: retry ? 503 : 409, code, sentence: code, fields });
}

/** One stream as nodes keep it. */
class ModelStream {
  readonly log: { readonly text: string; readonly end: number }[] = [];
  tail = 0;
  isClosed = false;
  /** A node that does not know producers, for the test of this test. */
  remembers = true;
  #epoch = -1;
  #last = -1;
  #results: (readonly [seq: number, tail: number])[] = [];

  apply({ epoch, seq, appends }: SentBatch): number | StreamError {
    const texts = appends.map(({ bytes }) => Buffer.from(bytes).toString());
    if (texts.some((text) => text.startsWith(BAD))) return refusal('INVALID_JSON');
    if (this.remembers) {
      if (epoch < this.#epoch) return refusal('PRODUCER_EPOCH_STALE');
      if (epoch === this.#epoch && seq <= this.#last) {
        return this.#results.find(([known]) => known === seq)?.[1] ?? this.tail;
      }
      if (this.isClosed) return refusal('STREAM_CLOSED');
      const expected = epoch > this.#epoch ? 0 : this.#last + 1;
      if (seq !== expected) return refusal(epoch > this.#epoch ? 'PRODUCER_EPOCH_START' : 'PRODUCER_SEQ_CONFLICT');
    }
    if ((appends[0]?.expectedOffset ?? this.tail) !== this.tail) return refusal('EXPECTED_OFFSET_CONFLICT');
    if (epoch > this.#epoch) this.#results = [];
    this.#epoch = epoch;
    this.#last = seq;
    for (const text of texts) this.append(text);
    this.isClosed = appends.some(({ closes }) => closes);
    this.#results = [...this.#results, [seq, this.tail] as const].slice(-RESULTS_KEPT);
    return this.tail;
  }

  append(text: string): void {
    this.tail += text.length;
    if (text !== '') this.log.push({ text, end: this.tail });
  }
}

interface Outcome {
  readonly text: string;
  readonly expectedOffset?: number | undefined;
  /** Its end is what this one expects. */
  readonly basis?: Outcome | undefined;
  offset?: number;
  error?: StreamError;
}

function isSettled({ offset, error }: Outcome): boolean {
  return offset !== undefined || error !== undefined;
}

/** The connection, and what is left of those before it. */
class World {
  readonly stream = new ModelStream();
  readonly producer = new ProducerQueue(undefined);
  readonly outcomes: Outcome[] = [];
  readonly #random: Random;
  #flight: SentBatch[] = [];
  #late: SentBatch[] = [];

  constructor(random: Random) {
    this.#random = random;
    this.producer.hasByteOffsets = true;
  }

  append(text: string, expected: Pick<Outcome, 'expectedOffset' | 'basis'> = {}): void {
    const outcome: Outcome = { text, ...expected };
    this.outcomes.push(outcome);
    this.producer.push({
      ...{ bytes: Buffer.from(text), closes: false, expectedOffset: expected.expectedOffset },
      done: (offset) => (outcome.offset = offset),
      failed: (error) => (outcome.error = error),
    });
  }

  step(): void {
    const random = this.#random;
    if (random.chance(0.4)) {
      const bytes = random.chance(0.5) ? USUAL_BYTES : random.int(3, 900);
      this.append(`${random.chance(0.02) ? BAD : 'm'}${this.outcomes.length};`.padEnd(bytes, '.'), this.#expected());
    }
    if (random.chance(0.05)) this.stream.append(`${FOREIGN}${this.stream.log.length};`.padEnd(USUAL_BYTES, '.'));
    if (random.chance(0.6)) this.#send();
    if (random.chance(0.5)) this.#answer();
    if (random.chance(0.05)) this.#break();
    if (random.chance(0.2)) this.#arriveLate();
  }

  /** Nothing, or the tail, or the end of the append before, whatever becomes of it. */
  #expected(): Pick<Outcome, 'expectedOffset' | 'basis'> {
    const basis = this.outcomes.at(-1);
    if (basis?.expectedOffset !== undefined && this.#random.chance(0.7))
      return { expectedOffset: basis.expectedOffset + basis.text.length, ...(isSettled(basis) ? {} : { basis }) };
    return this.#random.chance(0.3) ? { expectedOffset: this.stream.tail } : {};
  }

  /** Without faults from here on. */
  finish(): void {
    for (let round = 0; !this.producer.isIdle; round++) {
      assert(round < 100_000, 'the producer comes to an end');
      this.#send();
      const batch = this.#flight.shift();
      if (batch !== undefined) this.#tell(batch, this.stream.apply(batch));
      this.#arriveLate();
    }
    while (this.#late.length > 0) this.#arriveLate();
  }

  #send(): void {
    const batch = this.producer.next({ batches: 4, bytes: 800 });
    if (batch !== undefined) this.#flight.push(batch);
    else if (this.producer.out === 0) this.producer.resume();
  }

  #answer(): void {
    const batch = this.#flight.shift();
    if (batch === undefined) return;
    const random = this.#random;
    if (random.chance(0.05)) return this.#tell(batch, refusal('NO_LEADER', true));
    if (random.chance(0.05)) {
      if (random.chance(0.5)) this.#late.push(batch);
      else this.stream.apply(batch);
      return this.#tell(batch, refusal('OUTCOME_UNKNOWN', true));
    }
    return this.#tell(batch, this.stream.apply(batch));
  }

  #tell(batch: SentBatch, answer: number | StreamError): void {
    if (typeof answer === 'number') this.producer.acknowledged(batch, answer);
    else this.producer.refused(batch, answer);
  }

  /** Some of what is under way still arrives, now or later. */
  #break(): void {
    for (const batch of this.#flight) {
      if (this.#random.chance(0.3)) this.stream.apply(batch);
      else if (this.#random.chance(0.5)) this.#late.push(batch);
    }
    for (const batch of this.#flight.splice(0)) this.producer.lost(batch);
  }

  #arriveLate(): void {
    if (this.#late.length === 0) return;
    const [batch] = this.#late.splice(this.#random.int(0, this.#late.length - 1), 1);
    if (batch !== undefined) this.stream.apply(batch);
  }
}

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
