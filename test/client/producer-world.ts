// The state of a producer before a model of a node, with faults between them: connections that end, copies that arrive late,
// batches that overtake, refusals that pass and refusals that stay, and another writer.
import assert from 'node:assert/strict';
import { StreamError } from '../../src/client/error.ts';
import { ProducerQueue, type SentBatch } from '../../src/client/producer.ts';
import type { Random } from '../support/random.ts';

const RESULTS_KEPT = 5;
export const BAD = 'bad';
export const FOREIGN = 'f';
/** Most appends have so many bytes, so that those of another writer end where one of ours would have. */
const USUAL_BYTES = 8;

export function refusal(code: string, retry = false): StreamError {
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

export interface Outcome {
  readonly text: string;
  readonly expectedOffset?: number | undefined;
  /** Its end is what this one expects. */
  readonly basis?: Outcome | undefined;
  offset?: number;
  error?: StreamError;
}

export function isSettled({ offset, error }: Outcome): boolean {
  return offset !== undefined || error !== undefined;
}

/** The connection, and what is left of those before it. */
export class World {
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
    if (random.chance(0.05)) return this.#overtake(batch);
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

  /** The node takes up the next one first, and answers in the order of the requests. */
  #overtake(batch: SentBatch): void {
    const next = this.#flight.shift();
    const answer = next === undefined ? undefined : this.stream.apply(next);
    this.#tell(batch, this.stream.apply(batch));
    if (next !== undefined && answer !== undefined) this.#tell(next, answer);
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
