/**
 * The stream that an import fills, exactly once. Only the import writes to it, so what it holds
 * says how far the import is; the sequence of a producer keeps a write that was on its way when
 * an earlier run was killed from taking effect twice.
 */
import { createHash } from 'node:crypto';
import { Failure } from '../../nodes/failure.ts';
import { batchesOf, bodyOf } from '../streams/records.ts';
import { type StreamFacts, factsIn, numberIn } from '../streams/reading.ts';
import { type StreamAnswer, type StreamClient, expectStatus, sentenceOf } from '../streams/stream-client.ts';
import type { NamedStream } from '../streams/stream-name.ts';
import { type ImportSource, type Unit, piecesOfSize } from './import-source.ts';

/** No import gets there, so a node refuses it and says which sequence it expects. */
const SEQUENCE_MAX = Number.MAX_SAFE_INTEGER;
const PROBE = Buffer.from('0');
/** At a stream, until it and the last write agree. */
const LOOKS = 3;

class ImportTarget {
  readonly #client: StreamClient;
  readonly #name: NamedStream;
  readonly #isJson: boolean;
  readonly #contentType: string;
  readonly #producer: string;
  #sequence = 0;
  /** The position counts records of a JSON stream, and bytes of any other one. */
  #position = 0;
  #isClosed: boolean;

  private constructor(client: StreamClient, name: NamedStream, facts: StreamFacts, producer: string) {
    this.#client = client;
    this.#name = name;
    this.#isJson = facts.isJson;
    this.#contentType = facts.contentType;
    this.#isClosed = facts.isClosed;
    this.#position = positionIn(facts);
    this.#producer = producer;
  }

  /** Makes the stream, or goes on with one of an earlier run. Throws a Failure where another writer was first. */
  static async open(
    client: StreamClient,
    name: NamedStream,
    source: ImportSource,
    looks: number = LOOKS,
  ): Promise<ImportTarget> {
    const head = await client.call({ method: 'HEAD', path: name.path, mayRepeat: true });
    if (head.status === 404) {
      const headers = { ...source.createHeaders, 'content-type': source.contentType };
      expectStatus(
        await client.call({ method: 'PUT', path: name.path, headers, mayRepeat: true }),
        name.text,
        200,
        201,
      );
      return await ImportTarget.open(client, name, source, looks);
    }
    const facts = factsIn(expectStatus(head, name.text, 200));
    if (facts.isJson !== source.isJson)
      throw new Failure(
        `${name.text} is a stream of ${facts.contentType}, and ${source.label} has ${source.contentType}`,
      );
    const target = new ImportTarget(client, name, facts, producerOf(source, name));
    if (facts.isClosed) return target;
    const last = await target.#learnSequence();
    if (last === target.#position) return target;
    // A write of a run that was killed may just have arrived.
    if (looks > 1) return await ImportTarget.open(client, name, source, looks - 1);
    throw target.#disturbed(`it holds ${target.#position}, and the last write of this import ended at ${last}`);
  }

  get position(): number {
    return this.#position;
  }

  /** `units` are what the source has from `start` on; `start` is not above the position. */
  async put(units: readonly Unit[], start: number): Promise<void> {
    const end = start + sizeOf(units, this.#isJson);
    while (this.#position < end) {
      if (this.#isClosed)
        throw new Failure(
          `${this.#name.text} is closed, and the source has more than the ${this.#position} that it holds`,
        );
      await this.#append(this.#from(units, this.#position - start), end - this.#position);
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    const answer = await this.#post(Buffer.alloc(0), { 'stream-closed': 'true' });
    expectStatus(answer, this.#name.text, 200, 204);
    this.#isClosed = true;
  }

  #from(units: readonly Unit[], skipped: number): Buffer {
    return this.#isJson ? bodyOf(units.slice(skipped)) : Buffer.concat(units).subarray(skipped);
  }

  async #append(body: Buffer, size: number): Promise<void> {
    // A node compares them where it writes. One of an earlier version compares records alone.
    const match = this.#isJson ? 'stream-record-match' : 'stream-expected-offset';
    const headers = { 'content-type': this.#contentType, [match]: String(this.#position) };
    const answer = await this.#post(body, headers);
    if (answer.status === 412 || answer.status === 409) throw this.#disturbed(sentenceOf(answer));
    expectStatus(answer, this.#name.text, 200, 204);
    const position = this.#positionIn(answer);
    // 204: this sequence was written by a run before, or by this request, whose first answer was lost.
    const isFirst = answer.status === 200;
    if (isFirst && position !== this.#position + size)
      throw this.#disturbed(`${position} in place of ${this.#position + size} behind the last write`);
    if (position <= this.#position) throw this.#disturbed('a sequence was used for something else');
    this.#position = position;
    this.#sequence++;
  }

  #disturbed(why: string): Failure {
    return new Failure(
      `${this.#name.text} was written by another writer than this import (${why}); import into a new stream`,
    );
  }

  /** Which sequence comes next, by asking for one that cannot be it. Returns where the import's last write ended. */
  async #learnSequence(): Promise<number> {
    this.#sequence = SEQUENCE_MAX;
    const answer = await this.#post(PROBE, { 'content-type': this.#contentType });
    const expected = numberIn(answer, 'producer-expected-seq');
    if (answer.status !== 409 || expected === undefined) {
      expectStatus(answer, this.#name.text, 409);
      throw new Failure(`${this.#name.text}: ${sentenceOf(answer)}`);
    }
    this.#sequence = expected;
    if (expected > 0) return await this.#endOf(expected - 1);
    if (this.#position === 0) return 0;
    throw new Failure(
      `${this.#name.text} holds something that this import did not bring; import into a new stream, or use stream append`,
    );
  }

  /** A repeat of a write gets the result of that write, whatever it brings. */
  async #endOf(sequence: number): Promise<number> {
    const next = this.#sequence;
    this.#sequence = sequence;
    const answer = expectStatus(await this.#post(PROBE, { 'content-type': this.#contentType }), this.#name.text, 204);
    this.#sequence = next;
    return this.#positionIn(answer);
  }

  #positionIn(answer: StreamAnswer): number {
    const position = numberIn(answer, this.#isJson ? 'stream-record-next' : 'stream-next-offset');
    if (position === undefined) throw new Failure(`${this.#name.text}: a write was answered without a position`);
    return position;
  }

  #post(body: Buffer, headers: Readonly<Record<string, string>>): Promise<StreamAnswer> {
    const producer = {
      'producer-id': this.#producer,
      'producer-epoch': '0',
      'producer-seq': String(this.#sequence),
    };
    const { path } = this.#name;
    return this.#client.call({ method: 'POST', path, headers: { ...producer, ...headers }, body, mayRepeat: true });
  }
}

function positionIn({ isJson, tail, records }: StreamFacts): number {
  return isJson ? (records?.next ?? 0) : tail;
}

function sizeOf(units: readonly Unit[], isJson: boolean): number {
  return isJson ? units.length : units.reduce((bytes, unit) => bytes + unit.length, 0);
}

/** The same for every run of the same import. */
function producerOf({ identity }: ImportSource, { raw }: NamedStream): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([identity, raw]))
    .digest('hex');
  return `millracectl-import-${hash.slice(0, 32)}`;
}

export interface Imported {
  /** How much this run has brought, in records or bytes. */
  readonly brought: number;
  readonly before: number;
  readonly isClosed: boolean;
}

/** A run that was killed is finished by repeating it. `tell` is told the position after every write. */
export async function importStream(
  client: StreamClient,
  name: NamedStream,
  source: ImportSource,
  tell: (position: number) => void,
): Promise<Imported> {
  const target = await ImportTarget.open(client, name, source);
  const before = target.position;
  let at = before;
  const reading = source.read(at);
  try {
    for (;;) {
      const next = await reading.next();
      if (next.done === true) {
        if (next.value) await target.close();
        return { brought: target.position - before, before, isClosed: next.value };
      }
      for (const batch of requestsOf(next.value, source.isJson)) {
        await target.put(batch, at);
        at += sizeOf(batch, source.isJson);
        tell(at);
      }
    }
  } finally {
    await reading.return(false);
  }
}

function* requestsOf(units: readonly Unit[], isJson: boolean): Generator<readonly Unit[], void> {
  if (isJson) yield* batchesOf(units);
  else for (const unit of units) for (const piece of piecesOfSize(unit)) yield [piece];
}
