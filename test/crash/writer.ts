// One writer of the crash tests: a connection that creates, appends, closes and deletes, and notes what it was told.
import assert from 'node:assert/strict';
import type { Random } from '../support/random.ts';
import { ConnectionLost, RawClient, type HeaderList, type RawResponse } from '../support/raw-client.ts';
import {
  createStream,
  forget,
  newAppend,
  requestBody,
  type Append,
  type ProducerState,
  type StreamModel,
  type Totals,
} from './model.ts';

export const BUCKET = 'crash';
/** A stream beyond that is deleted, so that reading everything back after each crash stays quick. */
const STREAM_BYTES_MAX = 1024 * 1024;

/** The same stream through either route family. */
export function pathOf(stream: StreamModel, flat: boolean): string {
  return flat ? `/v1/stream/${BUCKET}/${stream.name}` : `/${BUCKET}/${stream.name}`;
}

function nextOffset(response: RawResponse): number {
  const value = response.headers.get('stream-next-offset') ?? '';
  assert.match(value, /^\d{20}$/, 'Stream-Next-Offset of an acknowledgement');
  return Number(value);
}

export class Writer {
  readonly id: number;
  readonly #random: Random;
  readonly #own: StreamModel[];
  readonly #shared: readonly StreamModel[];
  readonly #totals: Totals;
  readonly #onAcknowledged: () => void;
  #client: RawClient | undefined;

  constructor(id: number, random: Random, shared: readonly StreamModel[], totals: Totals, onAcknowledged: () => void) {
    this.id = id;
    this.#random = random;
    this.#shared = shared;
    this.#totals = totals;
    this.#onAcknowledged = onAcknowledged;
    this.#own = Array.from({ length: 4 }, (_, i) => createStream(`w${id}-${i}`, (id + i) % 2 === 0, false));
  }

  get streams(): readonly StreamModel[] {
    return this.#own;
  }

  /** Works until the connection is lost. */
  async run(port: number): Promise<void> {
    try {
      this.#client = await RawClient.connect(port);
      for (;;) await this.#step();
    } catch (error) {
      // A kill may also land in the middle of connecting.
      const code = (error as NodeJS.ErrnoException).code;
      if (!(error instanceof ConnectionLost) && code !== 'ECONNREFUSED' && code !== 'ECONNRESET') throw error;
    } finally {
      this.#client?.destroy();
    }
  }

  /** Creates the streams that all writers share; called by one of them. */
  async createShared(port: number): Promise<void> {
    this.#client = await RawClient.connect(port);
    for (const stream of this.#shared) await this.#create(stream);
    this.#client.destroy();
  }

  async #step(): Promise<void> {
    const random = this.#random;
    const stream = random.chance(0.15) ? random.pick(this.#shared) : random.pick(this.#own);
    const producer = stream.producers.get(this.id);
    if (producer?.open !== undefined) return await this.#sendProducer(stream, producer);
    if (!stream.exists) return await this.#create(stream);
    if (stream.isShared)
      return random.chance(0.5) ? this.#append(stream, false) : this.#appendAsProducer(stream, false);
    if (stream.closed || stream.tail > STREAM_BYTES_MAX) return await this.#afterClose(stream);
    const dice = random.next();
    if (dice < 0.45) return await this.#append(stream, false);
    if (dice < 0.9) return await this.#appendAsProducer(stream, false);
    if (dice < 0.94) return await this.#closeOnly(stream);
    if (dice < 0.96) return await this.#append(stream, true);
    if (dice < 0.98) return await this.#appendAsProducer(stream, true);
    return await this.#delete(stream);
  }

  /** The answer; undefined for a refusal that says nothing about the outcome. */
  async #ask(
    method: string,
    stream: StreamModel,
    headers: HeaderList,
    body = '',
    alsoExpected = 0,
  ): Promise<RawResponse | undefined> {
    assert(this.#client !== undefined);
    const path = pathOf(stream, this.#random.chance(0.5));
    const response = await this.#client.request(method, path, headers, body);
    if (response.status === 503) {
      // Overload is an honest answer; whether the write took effect stays unknown until the next look.
      this.#totals.refused++;
      return undefined;
    }
    const detail = `${method} ${path}: ${response.status} ${response.body.toString('utf8')}`;
    assert((response.status >= 200 && response.status < 300) || response.status === alsoExpected, detail);
    return response;
  }

  #contentType(stream: StreamModel): HeaderList {
    return { 'Content-Type': stream.isJson ? 'application/json' : 'text/plain' };
  }

  #newAppend(stream: StreamModel, closes: boolean): Append {
    const parts = this.#random.chance(0.2) ? this.#random.int(2, 4) : 1;
    return newAppend(stream, this.id, parts, closes);
  }

  #acknowledge(stream: StreamModel, append: Append, response: RawResponse): void {
    const end = nextOffset(response);
    assert(append.fate !== 'absent', `${stream.name}: an absent append was acknowledged`);
    append.fate = 'present';
    append.acknowledged = true;
    append.end = end;
    stream.tail = Math.max(stream.tail, end);
    if (append.closes) {
      stream.closed = true;
      stream.maybeClosed = false;
    }
    this.#totals.acknowledged++;
    this.#onAcknowledged();
  }

  async #create(stream: StreamModel): Promise<void> {
    const append = this.#random.chance(0.5) ? this.#newAppend(stream, false) : undefined;
    stream.exists = true;
    stream.maybeMissing = true;
    const body = append === undefined ? '' : requestBody(stream, append);
    const response = await this.#ask('PUT', stream, this.#contentType(stream), body);
    // After a refusal the create is tried again; a repetition finds the first one or makes the stream now.
    if (response === undefined) return void (stream.exists = false);
    stream.maybeMissing = false;
    if (append === undefined) return this.#onAcknowledged();
    if (response.status === 201) return this.#acknowledge(stream, append, response);
    append.fate = 'absent';
  }

  async #append(stream: StreamModel, closes: boolean): Promise<void> {
    const append = this.#newAppend(stream, closes);
    if (closes) stream.maybeClosed = true;
    const headers = { ...this.#contentType(stream), ...(closes ? { 'Stream-Closed': 'true' } : {}) };
    const response = await this.#ask('POST', stream, headers, requestBody(stream, append));
    if (response !== undefined) this.#acknowledge(stream, append, response);
    // Not knowing whether it is closed, nothing more can be expected of it until the next look.
    else if (closes) stream.closed = true;
  }

  async #appendAsProducer(stream: StreamModel, closes: boolean): Promise<void> {
    let producer = stream.producers.get(this.id);
    if (producer === undefined) {
      producer = { id: `p${this.id}`, epoch: 0, nextSeq: 0, open: undefined, last: undefined };
      stream.producers.set(this.id, producer);
    }
    if (producer.last !== undefined && this.#random.chance(0.1)) return await this.#repeat(stream, producer);
    if (producer.nextSeq > 0 && this.#random.chance(0.05)) {
      producer.epoch++;
      producer.nextSeq = 0;
    }
    producer.open = { epoch: producer.epoch, seq: producer.nextSeq, append: this.#newAppend(stream, closes) };
    if (closes) stream.maybeClosed = true;
    await this.#sendProducer(stream, producer);
  }

  /** Sends the open append, again if it was sent before a crash: it must take effect once in all. */
  async #sendProducer(stream: StreamModel, producer: ProducerState): Promise<void> {
    const open = producer.open;
    assert(open !== undefined);
    const { append, epoch, seq } = open;
    const knownFate = append.fate;
    // If it was found absent, sending it again may bring it in.
    if (knownFate === 'absent') append.fate = 'unknown';
    if (append.closes) stream.maybeClosed = true;
    const response = await this.#postAsProducer(stream, producer, open);
    if (response === undefined) return;
    const label = `${stream.name}: (epoch ${epoch}, seq ${seq}), ${knownFate} after the restart`;
    if (knownFate === 'present') assert.equal(response.status, 204, `${label}, must be recognised as a duplicate`);
    if (knownFate === 'absent') assert.equal(response.status, 200, `${label}, must be accepted now`);
    if (response.status === 204) this.#totals.deduplicated++;
    if (append.end !== undefined) assert.equal(nextOffset(response), append.end, `${label}: offset of the original`);
    producer.open = undefined;
    producer.last = open;
    producer.nextSeq = seq + 1;
    this.#acknowledge(stream, append, response);
  }

  async #repeat(stream: StreamModel, producer: ProducerState): Promise<void> {
    const last = producer.last;
    assert(last !== undefined);
    if (last.epoch !== producer.epoch) return;
    const response = await this.#postAsProducer(stream, producer, last);
    if (response === undefined) return;
    assert.equal(response.status, 204, `${stream.name}: an answered (epoch, seq) sent again`);
    assert.equal(
      nextOffset(response),
      last.append.end,
      `${stream.name}: a duplicate answers with the original's offset`,
    );
    this.#totals.deduplicated++;
  }

  async #postAsProducer(
    stream: StreamModel,
    producer: ProducerState,
    what: NonNullable<ProducerState['open']>,
  ): Promise<RawResponse | undefined> {
    const headers = {
      ...this.#contentType(stream),
      'Producer-Id': producer.id,
      'Producer-Epoch': what.epoch,
      'Producer-Seq': what.seq,
      ...(what.append.closes ? { 'Stream-Closed': 'true' } : {}),
    };
    return await this.#ask('POST', stream, headers, requestBody(stream, what.append));
  }

  async #closeOnly(stream: StreamModel): Promise<void> {
    stream.maybeClosed = true;
    const response = await this.#ask('POST', stream, { 'Stream-Closed': 'true' });
    stream.closed = true;
    if (response === undefined) return;
    stream.maybeClosed = false;
    this.#onAcknowledged();
  }

  async #afterClose(stream: StreamModel): Promise<void> {
    if (this.#random.chance(0.3)) await this.#delete(stream);
  }

  async #delete(stream: StreamModel): Promise<void> {
    const notFound = stream.maybeMissing ? 404 : 0;
    stream.maybeMissing = true;
    // After a refusal the stream is left alone until the next look; `closed` keeps the writer off it.
    const response = await this.#ask('DELETE', stream, {}, '', notFound);
    if (response === undefined) {
      stream.closed = true;
      stream.maybeClosed = true;
      return;
    }
    forget(stream);
    this.#onAcknowledged();
  }
}
